"""Every bound that reading captures has, with its reason. Sizes are bytes."""

BLOCK = 2 * 1024 * 1024  # read at a time: large enough for numpy, small enough to keep
MAX_PACKET = 16 * 1024 * 1024  # one captured packet; segments of 64 KiB are usual, more than this is a length that lies
SNAPLEN = 262_144  # what tcpdump captures of a packet at most unless told otherwise
MAX_LINE = 2 * 100 * 1024 * 1024 + 65_536  # one line of a frame log: Kafka's largest frame as hex
MAX_GZIP_RATIO = 200  # captures shrink 3 to 30 times
FREE_GZIP = 64 * 1024 * 1024  # may come out of any file at any ratio
MAX_VLANS = 4  # tags in a row
MAX_EXTENSIONS = 8  # IPv6 headers before TCP
MAX_FRAGMENTED = 1_024  # packets of which fragments are awaited
MAX_EARLY_FRAGMENTS = 64  # of one packet, before its first

MAX_CONNECTIONS = 32_768  # open at a time; the one that was silent longest makes room, and begins anew if it speaks
EARLY_SEGMENTS = 16  # of a connection that wait for its SYN: packets change places by a few
EARLY_BYTES = 1024 * 1024  # after the SYN: what a peer may send before it is acknowledged
MAX_HELD = 4 * 1024 * 1024  # of one direction behind a hole; a receive window is seldom larger
MAX_HELD_SEGMENTS = 4_096
MAX_ALL_HELD = 256 * 1024 * 1024  # of all connections: frames that are not complete, and what waits behind holes
HOLE_SECONDS = 10  # nobody retransmits later
ACKED_SEGMENTS = 8  # packets after which what the peer has acknowledged and we have not seen counts as lost
ACKED_US = 50_000  # or this time
MAX_KEPT_FRAME = 32 * 1024 * 1024  # a frame larger than this is passed over: Fetch answers have 50 MiB only by request
LOST_TOGETHER_US = 1_000_000  # times in which frames may have been missed are one if less is between them
MAX_LOST = 1_000  # such times of a connection; then the last goes on
MAX_PENDING = 10_000  # requests of a connection without an answer
MAX_SEARCH = 1024 * 1024  # of one direction in which a frame is looked for; older bytes are given up
MAX_ORIGINS = 16_384  # segments that those bytes are of: each costs as much memory as 100 bytes
MAX_TRIES = 256  # places in one look that are decoded to see whether they are a frame
MAX_UNDECIDED = 65_536  # of a connection of which it is not known who is the broker
STRANGE = 65_536  # in which no frame was found: not Kafka
MAX_TOKENS = 32  # SASL tokens without header in a row; Kerberos needs 3, SCRAM 2
MAX_NOTES = 20  # told of one connection
MAX_TOPICS = 1_000_000  # topic ids with names
HEAD = 600  # of a frame that is passed over: its header, with a client id of usual length
MAX_DAMAGES = (
    1_000  # places of one file behind which the next record is looked for; then nothing in it is to be trusted
)
CHAIN = 6  # records of a pcap in a row by which one is found again; each is told by its header alone
BLOCKS = 3  # blocks of a pcapng; each says its size twice
MAX_CHAINED = SNAPLEN  # of one record of those
NEAR_SECONDS = 86_400  # between the packet before the damage and those behind it

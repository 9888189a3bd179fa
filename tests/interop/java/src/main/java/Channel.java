import com.fasterxml.jackson.core.JsonProcessingException;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;

/** The connection of one client to its test: lines with commands come in, JSON lines with events go out. */
abstract class Channel {
  static final int DISCONNECTED = 3; // exit code

  private final BufferedReader reader;
  private final PrintStream writer;

  private Channel(InputStream input, OutputStream output) {
    reader = new BufferedReader(new InputStreamReader(input, StandardCharsets.UTF_8));
    writer = new PrintStream(output, false, StandardCharsets.UTF_8);
  }

  /** Ends the client, with its exit code. */
  abstract void end(int code);

  /** Stops the client because its test has disconnected. `owner`: the client's main thread. */
  abstract void abandon(Thread owner);

  /** Returns the next line; null if the test has disconnected. */
  String read() {
    try {
      return reader.readLine();
    } catch (IOException gone) {
      return null;
    }
  }

  /** Reads commands in another thread. If the test disconnects, the calling thread, the client's main one, stops. */
  BlockingQueue<String> commands() {
    Thread owner = Thread.currentThread();
    BlockingQueue<String> commands = new LinkedBlockingQueue<>();
    Thread listener =
        new Thread(
            () -> {
              for (String line = read(); line != null; line = read()) {
                commands.add(line);
              }
              abandon(owner);
            });
    listener.setDaemon(true);
    listener.start();
    return commands;
  }

  /** Writes one JSON line. */
  synchronized void tell(Map<String, ?> line) {
    try {
      writer.println(Client.JSON.writeValueAsString(line));
      writer.flush();
    } catch (JsonProcessingException problem) {
      throw new IllegalStateException(problem);
    }
  }

  /** The channel of a client that is alone in this process: stdin and stdout. */
  static final class OfProcess extends Channel {
    OfProcess() {
      super(System.in, new FileOutputStream(FileDescriptor.out));
    }

    @Override
    void end(int code) {
      Runtime.getRuntime().halt(code);
    }

    @Override
    void abandon(Thread owner) {
      end(DISCONNECTED);
    }
  }

  /** The channel of one of several clients in this process. It also carries what its client logs. */
  static final class OfSocket extends Channel {
    private static final InheritableThreadLocal<OfSocket> CURRENT = new InheritableThreadLocal<>();

    private final Socket socket;

    OfSocket(Socket socket) throws IOException {
      super(socket.getInputStream(), socket.getOutputStream());
      this.socket = socket;
    }

    /** Makes this the channel of the calling thread, and of the threads that it starts. */
    void enter() {
      CURRENT.set(this);
    }

    @Override
    void end(int code) {
      tell(Map.of("event", "exit", "code", code));
      try {
        socket.close();
      } catch (IOException gone) {
        // the test has closed it
      }
    }

    @Override
    void abandon(Thread owner) {
      owner.interrupt();
    }

    /** System.err of a process with several clients: a line goes to the channel of the thread that writes it. */
    static final class Errors extends OutputStream {
      private final PrintStream fallback; // of threads without a channel
      private final ByteArrayOutputStream line = new ByteArrayOutputStream();

      Errors(PrintStream fallback) {
        this.fallback = fallback;
      }

      @Override
      public synchronized void write(int one) {
        if (one != '\n') {
          line.write(one);
          return;
        }
        String text = line.toString(StandardCharsets.UTF_8);
        line.reset();
        if (CURRENT.get() == null) {
          fallback.println(text);
        } else {
          CURRENT.get().tell(Map.of("event", "log", "line", text));
        }
      }
    }
  }
}

"""What another assignor would have made of the history of a group (``kwire groups --what-if``)."""

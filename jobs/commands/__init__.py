"""One file a command: what it reads, which function it calls, what it prints."""

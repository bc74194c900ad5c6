"""What `slimtune inspect` shows, a module a kind of thing."""

"""What this host allows, and what will therefore be recorded. Nothing is started to find out."""

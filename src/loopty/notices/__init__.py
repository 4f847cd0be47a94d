"""Messages to a person who is elsewhere: what is worth one, and how it is sent."""

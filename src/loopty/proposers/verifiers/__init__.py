"""Whether a gain is one."""

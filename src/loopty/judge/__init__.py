"""What follows from the measurements so far: verdicts, and the measurements that they still need."""

"""What happens next: propose, run, judge, remember."""

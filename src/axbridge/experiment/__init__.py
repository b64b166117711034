"""What makes recordings of robots: experiments."""

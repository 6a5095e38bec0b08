"""Work on a cluster that outlives its request. It is stored, and the next active controller resumes it."""

"""Work on a cluster that outlives its request: stored, resumed by whichever controller is active."""

"""Real applications at their default settings: each does its main job, which is checked by contents."""

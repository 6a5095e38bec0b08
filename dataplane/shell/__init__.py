"""The broker process: sockets, tasks, files' threads and the controller session around the cores."""

"""What crosses between the two threads: frozen dataclasses with a future.

`application.py` has the events for the network thread, `background.py` those for the application
thread. `completable.py` has their futures and the reaper, `queues.py` the two queues.
"""

"""The calls of a consumer as coroutines: written once, for threads and for asyncio."""

"""Erlang's hash functions as RabbitMQ's exchanges use them, so that tests can say which queue a message goes to.

`phash2` covers binaries and lists of binaries; `jump` is consistent hashing over the generator `exs1024`.
"""

M32, M64 = (1 << 32) - 1, (1 << 64) - 1


def _mix(a, b, c):
    for x, y, z in ((13, 8, 13), (12, 16, 5), (3, 10, 15)):
        a = ((a - b - c) & M32) ^ (c >> x)
        b = ((b - c - a) & M32) ^ ((a << y) & M32)
        c = ((c - a - b) & M32) ^ (b >> z)
    return a, b, c


def _block(data, c):
    a = b = 0x9E3779B9
    word = lambda part: int.from_bytes(part, "little")
    whole = len(data) - len(data) % 12
    for at in range(0, whole, 12):
        a, b, c = _mix((a + word(data[at : at + 4])) & M32, (b + word(data[at + 4 : at + 8])) & M32, (c + word(data[at + 8 : at + 12])) & M32)
    rest = data[whole:]
    c += len(data) + (word(rest[8:]) << 8)
    return _mix((a + word(rest[:4])) & M32, (b + word(rest[4:8])) & M32, c & M32)[2]


def phash2(term):
    """erlang:phash2/1 of bytes or of a list of bytes."""
    h = 0
    for data in term if isinstance(term, list) else [term]:
        h = (0x08D12E65 + h) & M32
        h = _block(data, h) if data else h
    if isinstance(term, list):
        h = _mix(0x3C6EF374, 0x3C6EF372, h)[2] if term else 3468870702
    return h % (1 << 27)


def jump(key, count):
    """The bucket of an integer key."""
    if count == 1:
        return 0
    m21 = (1 << 21) - 1
    part = lambda factor: (((key & m21) + 1) * factor) & m21
    seed = part(2097131) << 43 | part(2097133) << 22 | part(2097143) << 1 | 1
    state = []
    for _ in range(16):
        seed ^= seed >> 12
        seed ^= (seed << 25) & M64
        seed ^= seed >> 27
        state.insert(0, (seed * 2685821657736338717) & M64)
    at, bucket, following = 0, -1, 0
    while following < count:
        bucket = following
        first, second = state[at], state[(at + 1) % 16]
        second ^= (second << 31) & M64
        second ^= second >> 11
        at = (at + 1) % 16
        state[at] = first ^ (first >> 30) ^ second
        following = int((bucket + 1) / (((state[at] * 1181783497276652981) & M64) / (1 << 64)))
    return bucket

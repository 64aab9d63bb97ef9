"""A TCP proxy before each node of a cluster, which can hold up what one node sends to another. Knows of the links' protocol where the name
of the node that dials stands in its first frame, and nothing else.

    proxy = FaultProxy()
    address = proxy.door("rabbit@b", ("127.0.0.1", 25672))     HOST:PORT for everybody else; leads to that node
    proxy.cut("rabbit@a", "rabbit@b")                          nothing of a reaches b, not even the end of a connection; b still reaches a
    proxy.heal()                                               what was held up goes on, as after a cable is plugged in again
    proxy.reset("rabbit@a", "rabbit@b")                        ends the connections between the two
    proxy.close()
"""

import select
import socket
import struct
import threading
import time

# Of a hello: magic, versions, lane, link, folder, life, instance and nonce stand before the name.
HEAD_BYTES, NAME_AT = 12, 8 + 4 + 1 + 8 + 16 + 4 + 8 + 32
PAUSE_S = 0.005


class FaultProxy:
    """All doors of one cluster, in threads of this process."""

    def __init__(self):
        self.lock = threading.Lock()
        self.held, self.connections, self.doors, self.is_open = set(), [], [], True

    def door(self, name, target, port=0):
        """Listens for those who dial a node."""
        listener = socket.create_server(("127.0.0.1", port), backlog=128)
        self.doors.append(listener)
        threading.Thread(target=self._accept, args=(listener, name, target), daemon=True).start()
        return f"127.0.0.1:{listener.getsockname()[1]}"

    def cut(self, sender, receiver):
        """One way only."""
        with self.lock:
            self.held.add((sender, receiver))

    def partition(self, *sides):
        """Groups of names that reach nobody outside their group."""
        for side in sides:
            others = [name for other in sides if other is not side for name in other]
            for name in side:
                for other in others:
                    self.cut(name, other)

    def heal(self):
        """Everybody reaches everybody."""
        with self.lock:
            self.held.clear()

    def reset(self, one, other):
        """Ends the connections of a pair on both sides at once."""
        with self.lock:
            ended = [entry for entry in self.connections if set(entry[0]) == {one, other}]
        for _, sockets in ended:
            _end(sockets)

    def close(self):
        self.is_open = False
        for listener in self.doors:
            _end([listener])
            listener.close()
        with self.lock:
            for _, sockets in self.connections:
                _end(sockets)

    def _accept(self, listener, name, target):
        while self.is_open:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client, name, target), daemon=True).start()

    def _serve(self, client, name, target):
        """Reads the name of the dialling node, then passes bytes on in both directions. A peer that sends no hello is passed on under the name None."""
        try:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            hello = _first_frame(client)
            dialer = _name(hello)
            self._wait(dialer, name)
            server = socket.create_connection(target, 2)
            server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            server.sendall(hello)
        except OSError:
            client.close()
            return
        entry = ((dialer, name), [client, server])
        with self.lock:
            self.connections.append(entry)
        back = threading.Thread(target=self._pump, args=(server, client, name, dialer), daemon=True)
        back.start()
        self._pump(client, server, dialer, name)
        back.join()
        with self.lock:
            self.connections.remove(entry)
        client.close()
        server.close()

    def _is_held(self, sender, receiver):
        with self.lock:
            return (sender, receiver) in self.held

    def _wait(self, sender, receiver):
        while self.is_open and self._is_held(sender, receiver):
            time.sleep(PAUSE_S)

    def _pump(self, source, sink, sender, receiver):
        try:
            while self.is_open:
                self._wait(sender, receiver)
                if not select.select([source], [], [], 0.05)[0]:
                    continue
                data = source.recv(65536)
                self._wait(sender, receiver)      # it may have been cut meanwhile
                if not data:
                    break
                sink.sendall(data)
        except OSError:
            self._wait(sender, receiver)
        _end([source, sink])


def _end(sockets):
    for one in sockets:
        try:
            one.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def _first_frame(client):
    """At most a kilobyte, or what comes within a second."""
    client.settimeout(1)
    data = b""
    try:
        while len(data) < HEAD_BYTES or len(data) < HEAD_BYTES + min(struct.unpack(">I", data[:4])[0], 1024):
            more = client.recv(65536)
            if not more:
                break
            data += more
    except TimeoutError:
        pass
    client.settimeout(None)
    return data


def _name(hello):
    at = HEAD_BYTES + NAME_AT
    if len(hello) <= at or hello[HEAD_BYTES:HEAD_BYTES + 8] != b"WarrenLk":
        return None
    return hello[at + 1:at + 1 + hello[at]].decode(errors="replace")

"""Deadlines for HTTP requests, also to servers that send a byte at a time.

The timeout of a socket begins anew with every byte. A server that sends a byte now and
then, of a header, of "100 Continue" or of the length of a chunk, would be waited for
without end.
"""

import contextlib
import http.client
import socket
import threading
import time
import urllib.request
from typing import Callable


class Watch:
    """Shuts the connections of a request down once their time is over.

        with Watch(30) as watch:
            response = watch.open(request)      # the whole head in 30 seconds
            while block:
                watch.begin_anew()
                block = response.read1(65536)   # each block in 30 seconds

    Args:
      timeout: seconds.
    """

    def __init__(self, timeout: float):
        self.timeout, self.is_over = timeout, False
        self._sockets, self._done = [], threading.Event()
        self.begin_anew()

    def begin_anew(self) -> None:
        """Give what follows the whole time again."""
        self._end = time.monotonic() + self.timeout

    def open(self, request: urllib.request.Request):
        """Return the response to a request, as urllib does."""
        opener = urllib.request.build_opener(
            _Http(self._watched), _Https(self._watched), _Redirects
        )
        return opener.open(request, timeout=self.timeout)

    def _watched(self, connection: http.client.HTTPConnection):
        """Return a connection, which is not open yet, with its socket watched."""
        connection._create_connection = self._connected
        return connection

    def _connected(self, *args):
        """Return a new socket; keep a copy, because TLS replaces the first one."""
        made = socket.create_connection(*args)
        self._sockets.append(made.dup())
        return made

    def __enter__(self):
        threading.Thread(target=self._watch, daemon=True).start()
        return self

    def __exit__(self, *exception):
        self._done.set()
        for each in self._sockets:
            each.close()

    def _watch(self):
        """Wait for the end of the body or of the time; then shut down what there is."""
        while not self._done.wait(min(0.1, self.timeout / 10)):
            if time.monotonic() > self._end:
                self.is_over = True
                for each in list(self._sockets):
                    with contextlib.suppress(OSError):  # it is closed already
                        each.shutdown(socket.SHUT_RDWR)


class _Http(urllib.request.HTTPHandler):
    """Opens http addresses by connections that are `watched`."""

    def __init__(self, watched: Callable):
        super().__init__()
        self._watched = watched

    def http_open(self, request):
        def connection(host, timeout):
            return self._watched(http.client.HTTPConnection(host, timeout=timeout))

        return self.do_open(connection, request)


class _Https(urllib.request.HTTPSHandler):
    """Opens https addresses by connections that are `watched`."""

    def __init__(self, watched: Callable):
        super().__init__()
        self._watched = watched

    def https_open(self, request):
        def connection(host, timeout):
            return self._watched(http.client.HTTPSConnection(host, timeout=timeout))

        return self.do_open(connection, request)


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects without reading their bodies, which may have no end."""

    def http_error_302(self, request, response, code, message, headers):
        response.close()
        return super().http_error_302(request, response, code, message, headers)

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302

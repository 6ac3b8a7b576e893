"""A real browser for tests: headless Chromium, controlled by its DevTools protocol.

It is Debian's `chromium`, or another one on the path, or the one that CHROMIUM names.
The protocol uses a pipe, so the standard library is enough.
"""

import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
PATH = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run "
    "--disable-background-networking --disable-component-update --disable-sync "
    "--disable-extensions --disable-default-apps --hide-scrollbars --mute-audio "
    "--force-color-profile=srgb --disable-dev-shm-usage --remote-debugging-pipe"
).split()
TIMEOUT = 60  # seconds
PAUSE = 0.02  # seconds between two looks: the page needs the processor, too
BROWSER_DOMAINS = ("Target.", "Browser.", "SystemInfo.")  # not of a tab
KEYS = {  # the codes of keys that are not characters
    "Tab": 9,
    "Enter": 13,
    "Escape": 27,
    " ": 32,
    "ArrowLeft": 37,
    "ArrowUp": 38,
    "ArrowRight": 39,
    "ArrowDown": 40,
}

needs_browser = pytest.mark.skipif(
    PATH is None, reason="no browser: apt-get install chromium, or set CHROMIUM"
)


class Browser:
    """A process of Chromium with an empty profile and one tab."""

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix="browser")
        to_browser, self._out = os.pipe()
        self._in, from_browser = os.pipe()

        def pipes():  # 3 is read by the browser, 4 is written
            high = [os.dup(to_browser), os.dup(from_browser)]
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        self._process = subprocess.Popen(
            [PATH, *FLAGS, f"--user-data-dir={self.folder}/profile", "about:blank"],
            preexec_fn=pipes,
            close_fds=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(to_browser)
        os.close(from_browser)
        self._rest, self._number, self._session, self.events = b"", 0, None, []
        return self

    def __exit__(self, *exception):
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._out)
        os.close(self._in)
        shutil.rmtree(self.folder, ignore_errors=True)

    def open(self, url):
        """Open a tab, the only one, and wait until the page is loaded."""
        if self._session:
            self.call("Page.close")
            self._session = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session, self.events = attached["sessionId"], []
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(domain + ".enable")
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=1200,
            height=900,
            deviceScaleFactor=1,
            mobile=False,
        )
        self.call(
            "Browser.setDownloadBehavior",
            behavior="allow",
            downloadPath=self.folder,
            eventsEnabled=True,
        )
        self.call("Page.navigate", url=url)
        self.until(
            "document.readyState === 'complete' && location.href !== 'about:blank'"
        )

    def call(self, method, **params):
        """Call a method of the protocol; return its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session and not method.startswith(BROWSER_DOMAINS):
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._number:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]
            self.events.append(answer)

    def _read(self):
        """Return the next message."""
        end = time.monotonic() + TIMEOUT
        while b"\0" not in self._rest:
            seconds = max(0, end - time.monotonic())
            assert select.select([self._in], [], [], seconds)[0], "no answer"
            self._rest += os.read(self._in, 1 << 20)
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message.decode("utf-8"))

    def run(self, script):
        """Return the value of a JavaScript expression; a promise is awaited."""
        result = self.call(
            "Runtime.evaluate",
            expression=script,
            awaitPromise=True,
            returnByValue=True,
            userGesture=True,
        )
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def until(self, script):
        """Wait until a JavaScript expression is true; return its value."""
        end = time.monotonic() + TIMEOUT
        while time.monotonic() < end:
            value = self.run(f"(() => {{ try {{ return {script}; }} catch {{}} }})()")
            if value:
                return value
            time.sleep(PAUSE)
        raise AssertionError("it never became true: " + script)

    def click(self, selector):
        """Click into the middle of an element, as a mouse does."""
        x, y = self.middle(selector)
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.mouse(kind, x, y)

    def middle(self, selector):
        """Return where the middle of an element is, scrolled into view."""
        return self.run(
            f"""(() => {{ const e = document.querySelector({json.dumps(selector)});
            e.scrollIntoView({{block: "center", inline: "center"}});
            const box = e.getBoundingClientRect();
            return [box.x + box.width / 2, box.y + box.height / 2]; }})()"""
        )

    def mouse(self, kind, x, y):
        """Move, press or release the mouse."""
        button = "none" if kind == "mouseMoved" else "left"
        self.call(
            "Input.dispatchMouseEvent", type=kind, x=x, y=y, button=button, clickCount=1
        )

    def type(self, text):
        """Type into the element that has the focus."""
        self.call("Input.insertText", text=text)

    def press(self, key):
        """Press a key."""
        text = "\r" if key == "Enter" else key if len(key) == 1 else ""
        code = {"windowsVirtualKeyCode": KEYS.get(key, 0)}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, text=text, **code)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, **code)

    def requests(self):
        """Return the addresses that the tab requested, except data and blobs."""
        self.run("0")
        urls = [
            event["params"]["request"]["url"]
            for event in self.events
            if event.get("method") == "Network.requestWillBeSent"
        ]
        return [url for url in urls if not url.startswith(("data:", "blob:"))]

    def errors(self):
        """Return the errors that the browser reported: of scripts, of the policy."""
        self.run("0")
        errors = []
        for event in self.events:
            params = event.get("params", {})
            if event.get("method") == "Runtime.exceptionThrown":
                errors.append(params["exceptionDetails"])
            elif event.get("method") == "Log.entryAdded":
                if params["entry"]["level"] == "error":
                    errors.append(params["entry"]["text"])
        return errors

    def downloaded(self, name):
        """Return the bytes of a file that the page saved."""
        path, end = os.path.join(self.folder, name), time.monotonic() + TIMEOUT
        content = b""
        while not content and time.monotonic() < end:
            self.run("0")
            if os.path.exists(path):
                with open(path, "rb") as file:
                    content = file.read()
        return content

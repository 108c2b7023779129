"""A registry of images for tests, on the loopback interface.

registry.py DIR LAYER    serves until standard input ends; DIR/port appears when it does

Each image has the one layer LAYER, a tar. lab/ok is as it should be. lab/held gives its layer once DIR/go
is there. lab/corrupt gives other bytes than its digest promises, lab/cut half of them, lab/foreign has
nothing for this machine. Every other name is missing. DIR/requests has a line for each request.
"""

import gzip
import hashlib
import http.server
import io
import json
import os
import pathlib
import platform
import sys
import tarfile
import threading
import time

folder, layer = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]).read_bytes()
ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
KIND = "application/vnd.docker.distribution.manifest.v2+json"
LIST = "application/vnd.docker.distribution.manifest.list.v2+json"
NAMES = ("ok", "held", "corrupt", "cut", "foreign")


def digest(content):
    return "sha256:" + hashlib.sha256(content).hexdigest()


def encoded(value):
    return json.dumps(value, sort_keys=True).encode()


class Image:
    """An image of its own, with the layer and a file of its name."""

    def __init__(self, name):
        tar = io.BytesIO(layer)
        with tarfile.open(fileobj=tar, mode="a") as archive:
            archive.addfile(tarfile.TarInfo(name))
        own = tar.getvalue()
        packed = gzip.compress(own, mtime=0)
        self.config = encoded({
            "architecture": ARCHITECTURE, "os": "linux", "config": {},
            "rootfs": {"type": "layers", "diff_ids": [digest(own)]},
        })
        self.manifest = encoded({
            "schemaVersion": 2, "mediaType": KIND,
            "config": {"mediaType": "application/vnd.docker.container.image.v1+json",
                       "size": len(self.config), "digest": digest(self.config)},
            "layers": [{"mediaType": "application/vnd.docker.image.rootfs.diff.tar.gzip",
                        "size": len(packed), "digest": digest(packed)}],
        })
        self.foreign = encoded({
            "schemaVersion": 2, "mediaType": LIST,
            "manifests": [{"mediaType": KIND, "size": len(self.manifest), "digest": digest(self.manifest),
                           "platform": {"architecture": "s390x", "os": "linux"}}],
        })
        self.blobs = {digest(self.config): self.config, digest(packed): packed}


images = {name: Image(name) for name in NAMES}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        with open(folder / "requests", "a") as log:
            log.write(f"{self.command} {self.path}\n")
        words = self.path.strip("/").split("/")
        if words == ["v2"]:
            return self.answer(b"{}", "application/json")
        if len(words) != 5 or words[:2] != ["v2", "lab"] or words[2] not in NAMES:
            return self.answer(b'{"errors":[{"code":"MANIFEST_UNKNOWN","message":"manifest unknown"}]}',
                               "application/json", 404)
        name, what, key = words[2:]
        image = images[name]
        if what == "manifests":
            if name == "foreign" and key != digest(image.manifest):
                return self.answer(image.foreign, LIST)
            return self.answer(image.manifest, KIND)
        if key not in image.blobs:
            return self.answer(b"{}", "application/json", 404)
        content = image.blobs[key]
        if content == image.config:
            return self.answer(content, "application/octet-stream")
        while name == "held" and not (folder / "go").exists():
            time.sleep(0.02)
        if name == "corrupt":
            content = content[:-1] + bytes([content[-1] ^ 1])
        self.answer(content, "application/octet-stream", half=name == "cut")

    do_HEAD = do_GET

    def answer(self, content, kind, code=200, half=False):
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Docker-Content-Digest", digest(content))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content[:len(content) // 2] if half else content)
        self.close_connection = half

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        """Clients hang up as they like."""


server = Server(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
private = folder / "port.new"
private.write_text(str(server.server_address[1]))
os.rename(private, folder / "port")
sys.stdin.read()

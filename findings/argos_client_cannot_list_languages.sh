#!/usr/bin/env bash
# argos-translate-lt 1.12.1: its client cannot list the languages of LibreTranslate 1.9.6, the server
# that is built on it.
# Guessed: the client and the server of one project fit. Seen: the client sends POST /languages, and
# the server answers only GET there: 405. ARGOS_MODEL_PROVIDER=LIBRETRANSLATE begins with this request.
# Met by: whoever lets Argos Translate translate with a server. (translate and detect work.)
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet libretranslate==1.9.6 argos-translate-lt==1.12.1

HOME="$folder" env/bin/python - 2> /dev/null <<'PYTHON'
import json
import threading
import urllib.error
import urllib.request

from argostranslate import package, translate
from argostranslate.apis import LibreTranslateAPI
from libretranslate.app import create_app
from libretranslate.main import get_parser
from werkzeug.serving import make_server

languages = [translate.Language("en", "English"), translate.Language("de", "German")]
translate.get_installed_languages = lambda: languages
package.get_installed_packages = lambda: languages  # so that it downloads none
app = create_app(get_parser().parse_args(["--disable-files-translation"]))
server = make_server("127.0.0.1", 0, app, threaded=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}/"

with urllib.request.urlopen(url + "languages") as answer:
    codes = [language["code"] for language in json.load(answer)]
print("GET /languages:", codes)
assert codes == ["en", "de"]
try:
    status = 200, LibreTranslateAPI(url).languages()
except urllib.error.HTTPError as error:
    status = error.code
print("LibreTranslateAPI.languages:", status)
assert status == 405
server.shutdown()
PYTHON

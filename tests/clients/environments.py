"""An environment of its own for each client, below `build/clients`, and a script run in it."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clients.client_table import Client

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = Path(__file__).parent / "scripts"
FOLDER = ROOT / "build" / "clients"
INSTALL_S = 900
SCRIPT_S = 300


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a program printed, and the end of what it said of errors if it did not end well."""

    printed: str
    error: str = ""

    @property
    def steps(self) -> list[dict[str, Any]]:
        """What `step` of a scenario told, among what the client itself printed."""
        return [json.loads(line) for line in self.printed.splitlines() if line.startswith('{"step":')]

    @property
    def reason(self) -> str:
        """The last line of the error."""
        return self.error.strip().rpartition("\n")[2]


@dataclass(frozen=True, slots=True)
class Environment:
    """A folder with a client installed."""

    client: Client

    @property
    def folder(self) -> Path:
        """Where it is."""
        return FOLDER / self.client.file_name

    def install(self) -> None:
        """Install the client unless it is there; raises CalledProcessError, with the output."""
        mark = self.folder / "installed"
        wanted = "\n".join(self.client.packages)
        if mark.exists() and mark.read_text("utf-8") == wanted:
            return
        self.remove()
        self.folder.mkdir(parents=True)
        for command in self._install_commands():
            subprocess.run(
                command, cwd=self.folder, check=True, capture_output=True, text=True, timeout=INSTALL_S
            )
        mark.write_text(wanted, "utf-8")

    def run(self, url: str) -> Outcome:
        """Run the client's script against the gateway at `url`."""
        if self.client.language == "Python":
            return self._run(SCRIPTS / self.client.script, url)
        for source in SCRIPTS.glob("*.mjs"):  # Node.js looks for packages beside the script
            shutil.copy(source, self.folder)
        return self._run(self.folder / self.client.script, url)

    def run_text(self, program: str) -> Outcome:
        """Run a program that knows where the gateway is."""
        path = self.folder / f"snippet{Path(self.client.script).suffix}"
        path.write_text(program, "utf-8")
        return self._run(path)

    def _run(self, program: Path, url: str = "") -> Outcome:
        interpreter = ["node"] if self.client.language == "JavaScript" else [str(self._python), "-B"]
        try:
            ran = subprocess.run(
                [*interpreter, str(program)],
                cwd=self.folder,
                env=self._variables(url),
                capture_output=True,
                text=True,
                timeout=SCRIPT_S,
                check=False,
            )
        except subprocess.TimeoutExpired as expired:
            return Outcome(_text(expired.stdout), f"not done after {SCRIPT_S} seconds")
        return Outcome(ran.stdout, ran.stderr[-2000:] if ran.returncode else "")

    def remove(self) -> None:
        """Delete the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def _python(self) -> Path:
        return self.folder / "venv" / "bin" / "python"

    def _install_commands(self) -> list[list[str]]:
        packages = list(self.client.packages)
        if self.client.language == "JavaScript":
            return [["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", ".", *packages]]
        if uv := shutil.which("uv"):
            return [
                [uv, "venv", "--quiet", "--python", sys.executable, "venv"],
                [uv, "pip", "install", "--quiet", "--python", str(self._python), *packages],
            ]
        return [
            [sys.executable, "-m", "venv", "venv"],
            [str(self._python), "-m", "pip", "install", "--quiet", *packages],
        ]

    def _variables(self, url: str) -> dict[str, str]:
        """Nothing of this process but where programs are: no keys, no settings, no proxies."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "CALLGATE_URL": url,
            "DO_NOT_TRACK": "1",
            **self.client.environment,
        }


def _text(output: bytes | str | None) -> str:
    return output.decode(errors="replace") if isinstance(output, bytes) else output or ""

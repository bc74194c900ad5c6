import subprocess
import sys

from finetune.workers.port_claim import claim_port

CLAIM = "import sys; from finetune.workers.port_claim import claim_port; print(claim_port(int(sys.argv[1])))"


def claimed_elsewhere(port):
    done = subprocess.run(
        [sys.executable, "-c", CLAIM, str(port)], capture_output=True, text=True, check=True
    )
    return done.stdout.strip() == "True"


def test_a_port_belongs_to_one_process_until_it_ends(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    assert claimed_elsewhere(4711)
    assert claim_port(4711)
    assert not claimed_elsewhere(4711)
    assert claimed_elsewhere(4712)

"""What a newcomer sees of the command line: a first step, examples, completion."""

import os
import shlex
import shutil
import subprocess
import sys

import pytest

from sap_warp import cli
from sap_warp.commands import SUMMARIES, completion
from sap_warp.commands.examples import EXAMPLES
from sap_warp.scene.shipped.scene_files import find_scene_file


def test_without_arguments_there_is_a_first_step(capsys):
    """Not an error, and its own commands are right."""
    assert cli.main([]) == 0
    out = capsys.readouterr().out
    lines = [line.split("  ")[1].strip() for line in out.splitlines() if line.startswith("  sap-warp")]
    assert len(lines) == 3
    for line in lines:
        assert cli.make_parsers()[0].parse_args(shlex.split(line)[1:]).command


@pytest.mark.parametrize("name", SUMMARIES)
def test_every_sub_command_shows_examples_that_it_understands(name, capsys):
    """They are in its help, they parse, and the scenes that they name are shipped."""
    assert cli.main([name, "--help"]) == 0
    shown = capsys.readouterr().out
    assert EXAMPLES[name]
    for line, what in EXAMPLES[name]:
        assert f"  {line}\n      {what}" in shown
        words = shlex.split(line.removeprefix("source <(").split(" > ")[0].removesuffix(")"))
        assert words[:2] == ["sap-warp", name]
        arguments = cli.make_parsers()[0].parse_args(words[1:])
        scene = getattr(arguments, "scene", None)
        assert scene is None or "my_" in scene or find_scene_file(scene)
        if name == "bench":  # a shipped scene has one world unless it is asked for more
            assert arguments.threads <= (arguments.num_worlds or 1)


def test_only_the_named_sub_command_is_imported():
    """The help comes from a table, and a sub-command brings in its own module and what that needs."""
    code = "import sys; from sap_warp.cli import main; main({!r}); print(*sys.modules)"

    def imported(*arguments):
        command = [sys.executable, "-c", code.format(list(arguments))]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        return {name.replace("_", "-") for name in SUMMARIES} & {
            word.removeprefix("sap_warp.commands.").replace("_", "-")
            for word in said.splitlines()[-1].split()
            if word.startswith("sap_warp.commands.")
        }

    assert imported("--help") == set()
    assert imported("presets") == {"presets"}
    assert imported("compare-presets", "--help") == {"compare-presets"}


def test_summaries_are_those_of_the_sub_commands():
    """The lines of `sap-warp --help` are the same whether or not a sub-command is imported."""
    assert cli.make_parsers()[0].format_help() == cli.make_parsers([])[0].format_help()


def complete(line, tmp_path):
    """What bash offers at the end of ``line``."""
    script = tmp_path / "completion.bash"
    _, parsers = cli.make_parsers()
    script.write_text(completion.completion_script("bash", parsers))
    words = line.split(" ")
    quoted = " ".join(map(shlex.quote, words))
    ask = f"COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _sap_warp"
    code = f"source {script}; {ask}; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    return subprocess.run(["bash", "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path).stdout.split()


@pytest.mark.parametrize(
    "line, offered",
    [
        ("sap-warp r", ["run", "robots"]),
        ("sap-warp run hum", ["humanoid"]),
        ("sap-warp run humanoid --num", ["--num-worlds"]),
        ("sap-warp run --preset app", ["approx32", "approx64"]),
        ("sap-warp train CartP", ["CartPoleSwingUp"]),
        ("sap-warp train Ant --algorithm ", ["ppo", "ars"]),
        ("sap-warp bench --scene box", ["box_stack"]),
        ("sap-warp check my", ["my_scene.yaml"]),
        ("sap-warp run --num-worlds ", []),
    ],
)
def test_bash_completes(line, offered, tmp_path):
    """The script is run by bash itself, in a folder with one scene file."""
    (tmp_path / "my_scene.yaml").touch()
    assert complete(line, tmp_path) == offered


@pytest.mark.skipif(shutil.which("zsh") is None, reason="there is no zsh")
def test_zsh_completes_without_a_configuration(capsys, tmp_path):
    """Where nobody has started zsh's completion, the script does."""
    assert cli.main(["completion", "zsh"]) == 0
    script = tmp_path / "completion.zsh"
    script.write_text(capsys.readouterr().out)
    code = f"source {script} && echo $_comps[sap-warp]"
    surroundings = os.environ | {"ZDOTDIR": str(tmp_path)}  # compinit writes its list there
    answer = subprocess.run(["zsh", "-f", "-c", code], capture_output=True, text=True, check=True, env=surroundings)
    assert "_sap_warp" in answer.stdout and not answer.stderr


def test_completion_is_printed_at_once(capsys):
    """For both shells, without the large libraries; zsh gets bash's script through its own adapter."""
    assert cli.main(["completion", "zsh"]) == 0
    assert "bashcompinit" in capsys.readouterr().out
    code = "import sys; from sap_warp import cli; cli.main(['completion', 'bash']); sys.exit('warp' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0


def test_warp_is_quiet_about_a_missing_driver():
    """Neither lines for each module nor the one of Warp's C++ reach standard error."""
    command = [sys.executable, "-m", "sap_warp.cli", "check", "cube"]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    assert said.returncode == 0 and said.stderr == "" and "Module" not in said.stdout

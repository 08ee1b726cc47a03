"""Words of a YAML text are read as YAML 1.2 reads them, which is as people mean them."""

import math
import textwrap

import pytest
import yaml

import sap_warp
from sap_warp.scene.text import yaml_text
from sap_warp.scene.text.document import read_document
from sap_warp.scene.text.yaml_text import read_yaml, resolve_plain
from tests.support.scene_files import load


@pytest.fixture
def write(tmp_path):
    def write_file(text):
        file = tmp_path / "scene.yaml"
        file.write_text(textwrap.dedent(text))
        return file

    return write_file


def problems_in(file):
    with pytest.raises(sap_warp.SapSceneError) as caught:
        sap_warp.load_sap_scene_config(file)
    return str(caught.value).replace(str(file), "FILE").splitlines()


@pytest.mark.parametrize(
    "word, value",
    [
        ("010", 10),
        ("0o10", 8),
        ("0x1F", 31),
        ("-7", -7),
        ("+7", 7),
        ("1e3", 1000.0),
        ("1E3", 1000.0),
        ("-1.5e-3", -0.0015),
        (".5", 0.5),
        ("5.", 5.0),
        ("-.inf", -math.inf),
        ("~", None),
        ("null", None),
        ("true", True),
        ("FALSE", False),
        # texts
        ("1:30", "1:30"),
        ("190:20:30.15", "190:20:30.15"),
        ("1_000", "1_000"),
        ("0b11", "0b11"),
        ("yes", "yes"),
        ("No", "No"),
        ("on", "on"),
        ("OFF", "OFF"),
        ("y", "y"),
        ("2020-01-01", "2020-01-01"),
        ("0x", "0x"),
        ("1e", "1e"),
        ("+", "+"),
        (".", "."),
        ("tRue", "tRue"),
    ],
)
def test_a_plain_word_means_what_yaml_1_2_says(write, word, value):
    read = read_document(write(f"name: {word}\nkey: x")).data["name"]
    assert read == value and type(read) is type(value)
    assert read_document(write(f"name: '{word}'")).data["name"] == word


def test_not_a_number_is_one():
    assert math.isnan(resolve_plain(".nan")) and math.isnan(resolve_plain(".NaN"))


@pytest.mark.parametrize(
    "line, message",
    [
        ("dt: 1:30", "dt: unexpected ':' in '1:30'"),
        ("dt: 1_000", "dt: unexpected '_000' in '1_000'"),
        ("dt: yes", "dt: unexpected 'yes' in 'yes'"),
        ("dt: 2020-01-01", "dt: found '2020-01-01', a date; expected a number"),
        ("dt: .inf", "dt: found inf; expected a finite number"),
        ("dt: .nan", "dt: found nan; expected a finite number"),
        ("num_worlds: 0b11", "num_worlds: unexpected 'b11' in '0b11'"),
        ("num_worlds: true", "num_worlds: found True; expected a number"),
        ("solver: {use_f64_boundary_pose: yes}", "solver.use_f64_boundary_pose: "),
    ],
)
def test_what_yaml_1_1_would_have_changed_in_silence_is_refused_with_its_line(write, line, message):
    (problem,) = problems_in(write(f"name: demo\nsimulation:\n  {line}\n"))
    assert problem.startswith(f"FILE:3: simulation.{message.split(':')[0]}:")
    assert message.split(": ", 1)[1] in problem or message.endswith(": ")


@pytest.mark.parametrize("word", ["yes", "no", "on", "off", "Yes", "NO"])
def test_switches_are_true_and_false(write, word):
    assert problems_in(write(f"ground: {{enabled: {word}}}")) == [
        f"FILE:1: ground.enabled: found '{word}'; expected true or false"
    ]
    assert problems_in(write(f"ground: {word}")) == [
        f"FILE:1: ground: found '{word}'; expected true, false or a mapping"
    ]


def test_numbers_reach_the_scene_as_they_were_meant(write):
    scene = sap_warp.load_sap_scene_config(
        write(
            """\
            name: on
            simulation: {num_worlds: 010, dt: 1e-2}
            bodies: [{id: 'no', mass: 1e3}, {id: no_, mass: 0x10}]
            joints: [{id: 1:30, type: free, child: 'no'}, {id: y, type: free, child: no_}]
            """
        )
    )
    assert (scene.name, scene.num_worlds, scene.simulation.dt) == ("on", 10, 0.01)
    assert [body.mass for body in scene.bodies] == [1000.0, 16.0]
    assert [body.id for body in scene.bodies] == ["no", "no_"] and scene.joints[0].id == "1:30"


CASES = [
    "a: [1, {b: 2}]\nc: {d: [e, f]}\n",
    "base: &b {x: 1, y: [2, 3]}\ncopy: *b\nmore: {<<: *b, x: 7}\n",
    "a: |\n  text\n  more\nb: >-\n  folded\n  text\nc: 'it''s'\nd: \"\\u00e9\\n\"\n",
    "- 1\n- - 2\n  - 3\n-\n  k: v\n",
    "? key\n: value\n? other\n",
    "a: {}\nb: []\nc:\nd: ''\n",
]


@pytest.mark.parametrize("text", CASES)
@pytest.mark.parametrize("python_only", [False, True])
def test_structure_is_what_pyyaml_reads(write, monkeypatch, text, python_only):
    """Against PyYAML's own composer, with the parser written in C and without it."""
    if python_only:
        monkeypatch.delattr(yaml, "CSafeLoader", raising=False)
    assert read_yaml(text, write(text)).data == yaml.safe_load(text)


def test_the_second_parser_gives_the_same_lines(write, monkeypatch):
    text = "a:\n  - x: 1\n    y:\n      - 2\n      - 3\nb: {c: 1,\n  d: 2}\n"
    file = write(text)
    paths = [("a",), ("a", 0), ("a", 0, "y", 1), ("b", "d")]
    lines = [read_document(file).problem(path, "").line for path in paths]
    monkeypatch.delattr(yaml, "CSafeLoader", raising=False)
    assert lines == [1, 2, 5, 7]
    assert [read_document(file).problem(path, "").line for path in paths] == lines


def test_too_many_values_are_refused_while_they_are_read(write, monkeypatch):
    """Nothing is built of a text that is too large: the reader stops at the first value too many."""
    counted = []

    def count(text, Loader):
        for event in parse(text, Loader=Loader):
            counted.append(event)
            yield event

    parse = yaml.parse
    monkeypatch.setattr(yaml, "parse", count)
    monkeypatch.setattr(yaml_text, "MAX_NODES", 1000)
    text = "name: x\nvalues:\n" + "".join(f"  - {i}\n" for i in range(50_000))
    assert problems_in(write(text)) == ["FILE:998: more than 1000 values, repeated anchors included"]
    assert len(counted) < 1010


@pytest.mark.parametrize(
    "text, line, message",
    [
        ("a: &x 1\nb: &x 2\n", 2, "the anchor &x appears twice"),
        ("a: 1\nb: {[1]: 2, {c: 1}: 2}\n", 2, "a list or mapping cannot be a key"),
        ("a: &x [1]\n? *x\n: 2\n", 2, "a list or mapping cannot be a key"),
        ("a: &x 1\nb:\n  <<: [*x]\n", 3, "'<<' takes a mapping or a list of mappings"),
        ("a: {b: 1, 'b': 2}\n", 1, "the key 'b' appears twice in one mapping"),
        ("a: 1\n1: b\n1: c\n", 3, "the key 1 appears twice in one mapping"),
    ],
)
def test_what_leaves_the_rest_readable_is_listed_with_its_line(write, text, line, message):
    assert f"FILE:{line}: {message}" in problems_in(write(text))


def test_quoted_merge_keys_are_keys(write):
    assert read_document(write("a: &a {x: 1}\nb: {'<<': *a}")).data["b"] == {"<<": {"x": 1}}


def test_a_large_text_with_a_mistake_is_not_read_twice(write, monkeypatch):
    monkeypatch.setattr(yaml_text, "MAX_RETRY", 10)
    (problem,) = problems_in(write("name: demo\nbodies: [1, 2\nground: true\n"))
    assert problem.startswith("FILE:3: not valid YAML: ")


def test_lines_of_a_loaded_scene_are_those_of_their_cause(write):
    """Problems that only show while a scene is built name the line that makes them."""
    file = write(
        """\
        name: demo
        bodies:
          - id: box
            shapes:
              - {type: sphere, radius: 0.1}
              - {type: mesh, vertices: [[0, 0, 0], [1e7, 0, 0], [0, 1e7, 0], [0, 0, 1e7]],
                 indices: [0, 2, 1, 0, 1, 3, 0, 3, 2, 1, 2, 3], density: 0,
                 scale: 10}
        joints:
          - {id: root, type: free, child: box}
        post_build:
          - {op: set_array, array: joint_q, range: [3, 7],
             values: [0, 0, 0, 0]}
        """
    )
    with pytest.raises(sap_warp.SapSceneError) as caught:
        load(file)
    assert [(problem.line, problem.path) for problem in caught.value.problems] == [
        (6, ("bodies", 0, "shapes", 1)),
        (12, ("post_build", 0)),
    ]

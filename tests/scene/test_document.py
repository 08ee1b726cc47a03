"""Reading scene files: YAML, JSON, mappings; lines of every value; hostile texts."""

import json
import textwrap

import numpy as np
import pytest

import sap_warp
from sap_warp.scene.text.document import MAX_NESTING, read_document


@pytest.fixture
def write(tmp_path):
    def write_file(text, name="scene.yaml"):
        file = tmp_path / name
        file.write_bytes(text if isinstance(text, bytes) else textwrap.dedent(text).encode())
        return file

    return write_file


def line_of(document, *path):
    return document.problem(path, "").line


def error_of(file):
    with pytest.raises(sap_warp.SapSceneError) as caught:
        sap_warp.load_sap_scene_config(file)
    return str(caught.value).replace(str(file), "FILE")


YAML = """\
name: demo
bodies:
  - id: a
    shapes: [{type: box, hx: 1,
              hy: 2}]
  -
    id: b
simulation: {dt: 0.01}
"""


def test_yaml_values_know_their_lines(write):
    document = read_document(write(YAML))
    assert document.data["bodies"][0] == {"id": "a", "shapes": [{"type": "box", "hx": 1, "hy": 2}]}
    assert line_of(document, "name") == 1
    assert line_of(document, "bodies") == 2
    assert line_of(document, "bodies", 0) == 3
    assert line_of(document, "bodies", 0, "shapes", 0, "hx") == 4
    assert line_of(document, "bodies", 0, "shapes", 0, "hy") == 5
    assert line_of(document, "bodies", 1) == 7
    assert line_of(document, "simulation", "dt") == 8


def test_a_value_that_is_not_in_the_file_has_the_line_of_what_encloses_it(write):
    document = read_document(write(YAML))
    assert line_of(document, "bodies", 0, "shapes", 0, "hz") == 4
    assert line_of(document, "bodies", 7) == 2
    assert line_of(document, "nothing", "at", "all") is None


def test_json_has_lines_too_also_with_tabs_and_escapes(write):
    text = '{\n\t"name": "a\\/b\\u00e9",\n\t"bodies": [\n\t\t{"id": "x"}\n\t]\n}'
    document = read_document(write(text, "scene.json"))
    assert document.data == {"name": "a/bé", "bodies": [{"id": "x"}]}
    assert line_of(document, "bodies", 0, "id") == 4


def test_json_and_yaml_and_mapping_give_the_same_scene(write):
    bodies, joints = [{"id": "a", "mass": 2.5}], [{"id": "j", "type": "free", "child": "a"}]
    mapping = {"name": "demo", "bodies": bodies, "simulation": {"dt": 0.01}, "joints": joints}
    yaml = "name: demo\nbodies: [{id: a, mass: 2.5}]\nsimulation: {dt: 0.01}\njoints: [{id: j, type: free, child: a}]"
    scenes = [
        sap_warp.load_sap_scene_config(write(yaml)),
        sap_warp.load_sap_scene_config(write(json.dumps(mapping), "scene.json")),
        sap_warp.load_sap_scene_config(mapping),
    ]
    assert scenes[0] == scenes[1] == scenes[2]
    assert scenes[0].bodies[0].mass == 2.5 and scenes[0].simulation.dt == 0.01


def test_an_anchor_is_reported_where_it_is_written(write):
    document = read_document(
        write(
            """\
            base: &base
              hx: 1
              hy: 2
            copy: *base
            """
        )
    )
    assert document.data["copy"] == {"hx": 1, "hy": 2}
    assert line_of(document, "copy") == 4
    assert line_of(document, "copy", "hy") == 3


def test_keys_of_a_mapping_win_over_merged_ones_in_value_and_line(write):
    document = read_document(
        write(
            """\
            one: &one
              hx: 1
              hy: {a: 1}
            two: &two {hx: 2, hz: 3}
            merged:
              <<: [*one, *two]
              hy: 5
              extra: 6
            """
        )
    )
    assert document.data["merged"] == {"hx": 1, "hy": 5, "hz": 3, "extra": 6}
    lines = {key: line_of(document, "merged", key) for key in ("hx", "hy", "hz", "extra")}
    assert lines == {"hx": 2, "hy": 7, "hz": 4, "extra": 8}


def test_numpy_values_of_a_mapping_are_numbers():
    document = read_document({"a": np.arange(3), "b": np.float32(0.5), "c": (1, 2), "d": np.array(7)})
    assert document.data == {"a": [0, 1, 2], "b": 0.5, "c": [1, 2], "d": 7}


def test_a_scene_does_not_share_data_with_its_caller():
    mapping = {"bodies": [{"id": "a"}]}
    document = read_document(mapping)
    document.data["bodies"][0]["id"] = "changed"
    assert mapping == {"bodies": [{"id": "a"}]}


def test_a_byte_order_mark_is_no_part_of_the_text(write):
    assert read_document(write(b"\xef\xbb\xbfname: demo")).data == {"name": "demo"}
    assert read_document(write(b'\xef\xbb\xbf{"name": "demo"}', "scene.json")).data == {"name": "demo"}


@pytest.mark.parametrize("text", ["", " \n", "# nothing\n", "---\n", "null", "---\n~\n..."])
def test_an_empty_file_says_that_it_is_empty(write, text):
    message = "FILE: there is nothing in this file; a scene has at least one body or asset"
    assert error_of(write(text)) == message
    if not text.strip():
        assert error_of(write(text, "scene.json")) == message


@pytest.mark.parametrize(
    "text, message",
    [
        (
            "a: [1, 2",
            "FILE:1: not valid YAML: while parsing a flow sequence expected ',' or ']', but got '<stream end>'",
        ),
        ("a: 1\n b: 2", "FILE:2: not valid YAML: mapping values are not allowed here"),
        (
            "a:\n\t- b",
            "FILE:2: not valid YAML: while scanning for the next token found"
            " character '\\t' that cannot start any token",
        ),
        ("a: *b", "FILE:1: not valid YAML: found undefined alias 'b'"),
        (
            "a: 1\n---\nb: 2",
            "FILE:2: not valid YAML: expected a single document in the stream but found another document",
        ),
        ("name: x\nname: y", "FILE:2: the key 'name' appears twice in one mapping"),
        ("ground: {enabled: true, enabled: false}", "FILE:1: the key 'enabled' appears twice in one mapping"),
        ("? [a, b]\n: 1", "FILE:1: a list or mapping cannot be a key"),
        ("a: &a\n  - *a", "FILE:1: an anchor that contains itself"),
        ("a: 1\nb:\n  <<: 3", "FILE:3: '<<' takes a mapping or a list of mappings"),
        ("a: 1\nb: x\0y", "FILE:2: not valid YAML: the character U+0000 is not allowed"),
        ("a: 1\nb: !!bool perhaps", "FILE:2: cannot read 'perhaps' as bool"),
        ("a: !!int ''", "FILE:1: cannot read '' as int"),
        ("a: !!float ''", "FILE:1: cannot read '' as float"),
        ("simulation: {dt: " + 5000 * "9" + "}", "FILE:1: simulation.dt: found inf; expected a finite number"),
        ("- a", "FILE: found ['a']; expected a mapping"),
        ("just text", "FILE: found 'just text'; expected a mapping"),
    ],
)
def test_what_is_wrong_with_a_yaml_text(write, text, message):
    assert message in error_of(write(text)).splitlines()


@pytest.mark.parametrize(
    "tagged, tag",
    [
        ("!thing x", "!thing"),
        ("!thing [1, 2]", "!thing"),
        ("!thing {a: 1}", "!thing"),
        ("!!python/object/apply:os.system [ls]", "!!python/object/apply:os.system"),
        ("!!python/name:os.system", "!!python/name:os.system"),
        ("!!set {a, b}", "!!set"),
        ("!!omap [a: 1]", "!!omap"),
        ("!!binary aGVsbG8=", "!!binary"),
        ("!!timestamp 2020-01-01", "!!timestamp"),
        ("!!seq {a: 1}", "!!seq"),
        ("!!map [1]", "!!map"),
    ],
)
def test_a_tag_that_is_not_understood_is_refused_with_its_line(write, tagged, tag):
    lines = error_of(write(f"name: demo\nground: {tagged}")).splitlines()
    assert f"FILE:2: the tag '{tag}' means nothing in a scene; remove it" in lines


def test_tags_of_plain_kinds_are_read(write):
    text = "a: !!str 1\nb: !!int '5'\nc: !!float 2\nd: ! 3\ne: !!seq [!!map {f: !!null ''}]\ng: !!bool 'true'"
    data = read_document(write(text)).data
    assert data == {"a": "1", "b": 5, "c": 2, "d": "3", "e": [{"f": None}], "g": True}


def test_all_that_is_wrong_with_keys_and_tags_comes_together_with_the_rest(write):
    text = "name: a\nname: b\nground: !x true\nbodies:\n  - {id: box, mass: -1, mass: 2}\nsimulation: {dt: 0}"
    assert error_of(write(text)).splitlines() == [
        "FILE:2: the key 'name' appears twice in one mapping",
        "FILE:3: the tag '!x' means nothing in a scene; remove it",
        "FILE:3: ground: found 'true'; expected true, false or a mapping",
        "FILE:5: the key 'mass' appears twice in one mapping",
        "FILE:5: bodies[0].mass: found -1; expected a number that is not negative",
        "FILE:5: bodies[0]: body 'box' is the child of no joint; add a free joint for a body that moves freely, or a "
        "fixed one to hold it",
        "FILE:6: simulation.dt: found 0; expected a positive number",
    ]


@pytest.mark.parametrize(
    "text", ['name: "\\UFFFFFFFF"', 'name: "\\U00110000"', "%YAML " + 5000 * "9" + ".1\n---\na: 1"]
)
def test_numbers_inside_the_syntax_that_python_refuses_are_syntax_errors(write, text):
    assert error_of(write(text)).startswith("FILE: not valid YAML: ")


@pytest.mark.parametrize("value", ["2020-01-01", "2020-99-99", "="])
def test_dates_and_other_kinds_of_yaml_are_texts(write, value):
    assert isinstance(read_document(write(f"name: {value}")).data["name"], str)


@pytest.mark.parametrize(
    "text, message",
    [
        ('{"a": 1,\n "b": }', "FILE:2: not valid JSON: Expecting value"),
        ('{"a": 1,\n "b": {"c": 1,\n "c": 2}}', "FILE:3: the key 'c' appears twice in one mapping"),
        ("[" * 50_000, f"FILE: nested deeper than {MAX_NESTING} levels"),
        (f'{{"a": {"[" * 150}{"]" * 150}}}', f"FILE: nested deeper than {MAX_NESTING} levels"),
        ('{"simulation":\n{"dt": ' + 5000 * "9" + "}}", "FILE:2: simulation.dt: found inf; expected a finite number"),
        ('{"simulation":\n{"dt": NaN}}', "FILE:2: simulation.dt: found nan; expected a finite number"),
        ('{"\\ud800": 1}', "FILE:1: '\\ud800': found '\\ud800', which is not valid Unicode"),
    ],
)
def test_what_is_wrong_with_a_json_text(write, text, message):
    assert message in error_of(write(text, "scene.json")).splitlines()


def test_deep_nesting_is_refused(write):
    message = f"nested deeper than {MAX_NESTING} levels"
    assert message in error_of(write("a: " + 120 * "[" + 120 * "]"))
    assert message in error_of(write("[" * 3000))
    anchors = ["a0: &a0 [x]", *(f"a{i}: &a{i} [*a{i - 1}]" for i in range(1, 1500))]
    assert error_of(write("\n".join(anchors))) == f"FILE:{MAX_NESTING}: {message}"
    with pytest.raises(sap_warp.SapSceneError, match=message):
        read_document({"a": _nest(MAX_NESTING + 1)})
    endless: dict = {}
    endless["again"] = endless
    with pytest.raises(sap_warp.SapSceneError, match=message):
        read_document(endless)


def _nest(depth):
    value: list = []
    for _ in range(depth):
        value = [value]
    return value


def test_anchors_that_multiply_are_refused_before_they_fill_the_memory(write):
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    levels += [f"a{i}: &a{i} [{', '.join(10 * [f'*a{i - 1}'])}]" for i in range(1, 30)]
    assert error_of(write("\n".join(levels))) == "FILE:6: more than 500000 values, repeated anchors included"
    shared = [0] * 1000
    with pytest.raises(sap_warp.SapSceneError, match="more than 500000 values"):
        read_document({"a": [shared] * 1000})


def test_a_json_object_with_very_many_keys_is_read_in_linear_time(write):
    # 60,000 keys: comparing each with all others would take minutes.
    text = json.dumps({f"k{i}": i for i in range(60_000)})
    from sap_warp.scene.text import document

    data = json.loads(text)
    assert document.read_document(data).data == data
    small = write(json.dumps({f"k{i}": i for i in range(3_000)}), "scene.json")
    assert len(read_document(small).data) == 3_000


@pytest.mark.parametrize(
    "name, message",
    [
        ("missing.yaml", "there is no such file"),
        ("ant", "there is no such file; the shipped scene of that name is Simulation.from_scene('ant')"),
        ("", "this is a folder; a scene is a YAML or JSON file"),
    ],
)
def test_a_file_that_cannot_be_read(tmp_path, name, message):
    assert error_of(tmp_path / name) == f"FILE: {message}"


def test_other_encodings_and_odd_names_are_errors(write):
    assert error_of(write(b"name: \xff\xfe")).startswith("FILE:1: the file is not UTF-8 text")
    with pytest.raises(sap_warp.SapSceneError, match="the file cannot be read"):
        sap_warp.load_sap_scene_config("a\0b.yaml")
    with pytest.raises(sap_warp.SapSceneError, match="home directory"):
        sap_warp.load_sap_scene_config("~nobody-of-this-name/scene.yaml")


def test_too_large_a_file_is_not_read(write, monkeypatch):
    monkeypatch.setattr("sap_warp.scene.text.document.MAX_BYTES", 2**20)
    assert error_of(write(b"#" * (2**20 + 1))) == "FILE: the file has more than 1 MB; that is more than a scene needs"

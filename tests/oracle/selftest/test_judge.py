"""Tests of what scripts/oracle is made of: the language, the compiler, the comparison."""

import sys
import tempfile
import unittest
from pathlib import Path

ORACLE = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ORACLE))

from judge import compare, cpio, kernel  # noqa: E402
from judge.language import SequenceError  # noqa: E402
from judge.suite import Suite  # noqa: E402


def suite_of(text):
    """A suite whose only file is `text`."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "file.seq").write_text(text)
        return Suite(sequences=folder)


def compiled(text, class_name=None):
    suite = suite_of(text)
    file = suite.files[0]
    return suite.compile(file, file.sequences[0], suite.classes[class_name or file.classes[0]].kernel)


class Language(unittest.TestCase):
    def refused(self, text, message):
        with self.assertRaisesRegex(SequenceError, message):
            compiled(text)

    def test_mistakes_name_file_and_line(self):
        self.refused("on kfd\nsequence s\n  k = open kfd\n  frobnicate k\n", r"file\.seq:4: no statement \"frobnicate\"")

    def test_unknown_class(self):
        self.refused("on nothing\nsequence s\n  k = open kfd\n", r"file\.seq:1: class nothing is not one of")

    def test_unknown_ioctl_field_and_constant(self):
        head = "on kfd\nsequence s\n  k = open kfd\n  ioctl k "
        for text, message in (("AMDKFD_IOC_NOTHING", "no ioctl AMDKFD_IOC_NOTHING"),
                              ("AMDKFD_IOC_SET_EVENT color=3", "has no field color"),
                              ("AMDKFD_IOC_SET_EVENT event_id=KFD_NOTHING", "no constant KFD_NOTHING"),
                              ("AMDKFD_IOC_SET_EVENT event_id=$x", r"no variable \$x")):
            self.refused(head + text + "\n", message)

    def test_two_sequences_of_one_name(self):
        self.refused("on kfd\nsequence s\n  k = open kfd\nsequence s\n  k = open kfd\n", "exists already")

    def test_loops_nest_and_substitute(self):
        program = compiled("on kfd\nsequence s\n  k = open kfd\n  for a,b in 1,2 3,4\n    for n in 0x1..0x2\n"
                           "      ioctl k AMDKFD_IOC_SET_EVENT event_id=@a*@b*@n\n")
        self.assertEqual(program.step_count, 5)
        values = [line.split()[-1] for line in program.lines if line.startswith("set 0 0 4")]
        self.assertEqual([int(value, 0) for value in values], [2, 4, 12, 24])

    def test_a_macro_counts_as_one_step(self):
        program = compiled("on vgem\nsequence s\n  r = open render\n  h = buffer r 1\n  close r\n")
        self.assertEqual(program.step_count, 3)
        self.assertEqual(program.nodes, {"render", "card"})


class Compiler(unittest.TestCase):
    def lines(self, statement):
        return compiled(f"on kfd\nsequence s\n  k = open kfd\n  {statement}\n").lines

    def test_command_word(self):
        self.assertIn("do ioctl $3 0xc0204b08 &0", self.lines("ioctl k AMDKFD_IOC_CREATE_EVENT"))
        self.assertIn("do ioctl $3 0x40184bff 0",
                      self.lines("ioctl[nr=0xff dir=w size=24 arg=0] k AMDKFD_IOC_CREATE_EVENT"))

    def test_nested_arrays_get_memory_of_their_own(self):
        lines = self.lines("ioctl k AMDKFD_IOC_WAIT_EVENTS events_ptr=kfd_event_data[2 * {event_id=5}] num_events=2")
        self.assertIn("buffer 1 96 events_ptr", lines)
        self.assertIn("set 0 0 8 &1", lines)
        self.assertIn("set 1 88 4 5", lines)

    def test_the_union_arm_that_is_written_is_the_one_shown(self):
        lines = self.lines("ioctl k AMDKFD_IOC_WAIT_EVENTS "
                           "events_ptr=kfd_event_data[{event_id=5 signal_event_data.last_event_age=1}] num_events=1")
        self.assertTrue(any("events_ptr[0].signal_event_data.last_event_age" in line for line in lines))
        self.assertFalse(any("failure.NotPresent" in line for line in lines))

    def test_flexible_arrays_lengthen_the_command(self):
        lines = self.lines("ioctl k AMDKFD_IOC_SVM nattr=2 attrs=kfd_ioctl_svm_attribute[{type=1 value=2}, {type=3}]")
        self.assertIn("buffer 0 40 arg", lines)
        self.assertIn("set 0 32 4 3", lines)

    def test_a_shorter_struct_has_no_fields_beyond_its_end(self):
        lines = self.lines("ioctl[size=4] k AMDKFD_IOC_GET_VERSION major_version=7 minor_version=8")
        self.assertIn("set 0 0 4 7", lines)
        self.assertFalse(any(line.startswith("set 0 4") for line in lines))


class Comparison(unittest.TestCase):
    WHERE = {"kernel": "6.1", "node_class": "kfd", "machine": "cpu-only", "door": "fuse", "sequence": "f/s"}
    GOLDEN = [{"step": 1, "call": "open", "result": "fd#1"},
              {"step": 2, "call": "X", "result": -1, "errno": "EINVAL", "out": {"wait_result": 2}},
              {"end": "exit 0"}]

    def mismatches(self, actual):
        return compare.compare_sequence(self.GOLDEN, actual, self.WHERE).mismatches

    def test_equal(self):
        result = compare.compare_sequence(self.GOLDEN, self.GOLDEN, self.WHERE)
        self.assertEqual((result.steps, result.equal, result.mismatches), (2, 2, []))

    def test_a_wrong_errno_names_sequence_step_and_field(self):
        actual = [self.GOLDEN[0], {**self.GOLDEN[1], "errno": "EFAULT"}, self.GOLDEN[2]]
        (mismatch,) = self.mismatches(actual)
        self.assertEqual((mismatch.sequence, mismatch.step, mismatch.field), ("f/s", 2, "errno"))
        self.assertIn('f/s step 2 (X), errno: kernel 6.1 has "EINVAL"', str(mismatch))

    def test_a_missing_and_an_extra_returned_field(self):
        actual = [self.GOLDEN[0], {**self.GOLDEN[1], "out": {"pad": 1}}, self.GOLDEN[2]]
        self.assertEqual({mismatch.field for mismatch in self.mismatches(actual)}, {"out.wait_result", "out.pad"})

    def test_a_sequence_that_died(self):
        fields = {(mismatch.step, mismatch.field) for mismatch in self.mismatches(self.GOLDEN[:1])}
        self.assertEqual(fields, {(2, "step"), (0, "step")})

    def test_differences_explain_only_what_they_name(self):
        actual = [self.GOLDEN[0], {**self.GOLDEN[1], "errno": "EFAULT"}, self.GOLDEN[2]]
        (mismatch,) = self.mismatches(actual)
        for row, explains in (({"sequence": "f/*"}, True), ({"sequence": "f/s", "kernel": "6.12"}, False),
                              ({"call": "X", "field": "errno", "actual": "EFAULT"}, True),
                              ({"call": "X", "actual": "EPERM"}, False), ({"sequence": "f/s", "step": [1, 2]}, True)):
            self.assertEqual(compare.Difference(row, 1).explains(mismatch), explains, row)

    def test_a_difference_needs_a_reason(self):
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write('[[difference]]\nsequence = "f/s"\n')
            file.flush()
            with self.assertRaisesRegex(compare.DifferenceError, "a reason is required"):
                compare.read_differences(Path(file.name))


class BootFiles(unittest.TestCase):
    def test_dependencies_come_from_modinfo(self):
        self.assertEqual(kernel.module_dependencies(b"license=GPL\0depends=drm,drm-kms-helper\0name=x\0"),
                         ["drm", "drm_kms_helper"])
        self.assertEqual(kernel.module_dependencies(b"license=GPL\0depends=\0"), [])

    def test_archive_makes_folders_once(self):
        archive = cpio.Archive()
        archive.file("a/b/c", b"1")
        archive.file("a/b/d", b"22")
        data = archive.finish()
        self.assertEqual(data.count(b"070701"), 5)
        self.assertIn(b"TRAILER!!!", data)


if __name__ == "__main__":
    unittest.main()

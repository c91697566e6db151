"""The installed tree works, and its CMake package adds tests to other projects."""

import subprocess

from conftest import build_directory

PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(user LANGUAGES NONE)
enable_testing()
find_package(understudy REQUIRED)
understudy_add_test(NAME lists_the_gpu GPU gfx90a COMMAND sh -c "rocm_agent_enumerator | grep gfx90a")
"""


def run(*command, **keywords):
    result = subprocess.run(list(map(str, command)), capture_output=True, text=True, **keywords)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_installed_package_runs_a_users_test(tmp_path):
    prefix = tmp_path / "prefix"
    run("cmake", "--install", build_directory(), "--prefix", prefix)
    assert "gfx90a" in run(prefix / "bin" / "understudy", "profiles")
    source = tmp_path / "user"
    source.mkdir()
    (source / "CMakeLists.txt").write_text(PROJECT)
    run("cmake", "-S", source, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}")
    assert "100% tests passed" in run("ctest", "--test-dir", tmp_path / "build")

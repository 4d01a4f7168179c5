//! Tools whose mistakes a run of them would not show.

use std::process::Command;

use crate::support::{Scratch, ended_well, output, skipped};
use crate::tidy::root;

/// Installs an engine twice: from a package of which the second file is damaged, and from a whole
/// one. Prints the files that each left.
const INSTALLED_TWICE: &str = r#"
import pathlib, sys, types, zipfile
from importlib.machinery import SourceFileLoader
tools, venv = map(pathlib.Path, sys.argv[1:])
sys.path.insert(0, str(tools))
tool = types.ModuleType("tool")
SourceFileLoader("tool", str(tools / "beside-engine")).exec_module(tool)
(venv / "bin").mkdir(parents=True)
(venv / "bin/pip").write_text('#!/bin/sh\ncp "$(dirname "$0")/one.whl" "$7"\n')
(venv / "bin/pip").chmod(0o755)
for content in (b"bad", b"two"):
    package = venv / "bin/one.whl"
    with zipfile.ZipFile(package, "w") as made:
        made.writestr("first.py", "one")
        made.writestr("second.py", "two")
    package.write_bytes(package.read_bytes().replace(b"two", content))
    try:
        tool.installed("vllm", venv)
    except zipfile.BadZipFile:
        print("failed")
    print(*sorted(one.name for one in venv.glob("**/*.py")))
"#;

/// A folder with half of a package in it counted as installed from then on.
#[test]
fn an_engine_whose_installation_failed_is_installed_by_the_next_run() {
    if Command::new("python3").arg("--version").output().is_err() {
        return skipped("tools/beside-engine", "python3 is not installed");
    }
    let scratch = Scratch::new("tools");
    let mut command = Command::new("python3");
    command.args(["-B", "-c", INSTALLED_TWICE]).arg(root().join("tools"));
    command.arg(scratch.file("venv"));
    let installed = ended_well(output(command));
    assert_eq!(String::from_utf8_lossy(&installed.stdout), "failed\n\nfirst.py second.py\n");
}

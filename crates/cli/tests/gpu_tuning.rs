//! Tuning from outside: kernels are measured once for a device, kept, and taken as they were kept. Runs the TINY model
//! on the GPU, each test in a home folder of its own.

mod common;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::{DATA, Output};
use serde_json::Value;

/// A home folder of a test's own, and what becomes of it.
struct Home(PathBuf);

impl Home {
    fn new(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn file(&self) -> PathBuf {
        self.0.join(".cache/foretoken/tuning.json")
    }

    fn text(&self) -> String {
        std::fs::read_to_string(self.file()).unwrap()
    }

    fn choices(&self) -> Vec<Value> {
        let file: Value = serde_json::from_str(&self.text()).unwrap();
        file["choices"].as_array().unwrap().clone()
    }

    fn run(&self, args: &[&str]) -> Output {
        let output = Command::new(env!("CARGO_BIN_EXE_foretoken"))
            .args(args)
            .env("FORETOKEN_MODELS", DATA)
            .env("HOME", &self.0)
            .stdin(Stdio::null())
            .output()
            .expect("the binary starts");
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        Output {
            code: output.status.code(),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }

    /// Answers on the GPU; the kernels' shape by the fingerprint, and stderr. `None`, said aloud, without an adapter.
    fn shape(&self, more: &[&str]) -> Option<(String, String)> {
        let complete = [
            "complete",
            "--model",
            "tiny",
            "--prompt",
            "a",
            "--max-tokens",
            "2",
            "--temperature",
            "0",
            "--json",
        ];
        let output = self.run(&[&complete[..], more].concat());
        if output.code != Some(0) && output.json()["error"]["code"] == "webgpu_unavailable" {
            let required =
                std::env::var_os("FORETOKEN_REQUIRE_GPU").is_some_and(|value| value == "1");
            assert!(!required, "there is no GPU adapter");
            let _ = writeln!(std::io::stderr(), "SKIPPED: no GPU adapter to tune");
            return None;
        }
        assert_eq!(output.code, Some(0), "{}", output.stderr);
        let answer = output.json();
        let fingerprint = answer["system_fingerprint"].as_str().unwrap();
        let shape = fingerprint.split(' ').next_back().unwrap();
        assert!(shape.starts_with("split="), "{fingerprint}");
        Some((shape.to_owned(), output.stderr))
    }
}

#[test]
fn kernels_are_tuned_once_and_stay_what_they_are() {
    let home = Home::new("tuned");
    let Some((measured, _)) = home.shape(&[]) else {
        return;
    };
    let choices = home.choices();
    assert_eq!(choices.len(), 1);
    assert_eq!(choices[0]["shape"], *measured);
    for key in ["adapter", "driver", "tier", "build", "matrices"] {
        assert!(
            choices[0][key]
                .as_str()
                .is_some_and(|text| !text.is_empty()),
            "{key}"
        );
    }
    // What is kept is taken, not measured again. Software may take the first of these and would not choose it; hardware
    // both.
    let other = if measured.starts_with("split=8,wg=64,") {
        "split=8,wg=128,R=2,C=4,direct,tiles"
    } else {
        "split=8,wg=64,R=2,C=4,direct,rows"
    };
    let tampered = home.text().replace(&measured, other);
    std::fs::write(home.file(), &tampered).unwrap();
    for _ in 0..2 {
        let (taken, stderr) = home.shape(&[]).unwrap();
        assert_eq!(taken, other);
        assert!(!stderr.contains("tuned"), "{stderr}");
        assert_eq!(home.text(), tampered, "nothing is written");
    }
    let devices = home.run(&["devices", "--json"]).json();
    assert_eq!(devices["adapters"][0]["tuning"][0]["shape"], other);
    assert!(home.run(&["devices"]).stdout.contains(other));

    // Another key is another entry.
    for key in ["adapter", "driver", "tier", "build", "matrices"] {
        let mut file: Value = serde_json::from_str(&tampered).unwrap();
        file["choices"][0][key] = "another".into();
        std::fs::write(home.file(), file.to_string()).unwrap();
        let (taken, stderr) = home.shape(&[]).unwrap();
        assert!(!stderr.contains("tuned"), "{stderr}");
        let choices = home.choices();
        assert_eq!(choices.len(), 2, "{key}");
        assert_eq!(choices[0], file["choices"][0], "{key}");
        assert_eq!(choices[1]["shape"], *taken, "{key}");
    }
}

#[test]
fn choices_that_cannot_be_used_are_said_and_measured_again() {
    let home = Home::new("hostile");
    let Some((measured, _)) = home.shape(&[]) else {
        return;
    };
    let good = home.text();
    for shape in [
        "",
        "split=1,wg=4294967288,R=4,C=4,direct,rows",
        "split=1,wg=8,R=1000000,C=4,direct,rows",
        "split=0,wg=0,R=0,C=0,direct,rows",
    ] {
        std::fs::write(home.file(), good.replace(&measured, shape)).unwrap();
        let (_, stderr) = home.shape(&[]).unwrap();
        let warned = stderr.contains("tuning.json") && stderr.contains("tuned again");
        assert!(warned, "{shape:?}: {stderr}");
        assert_ne!(home.choices()[0]["shape"], shape);
    }
    for bytes in [&b""[..], b"{", b"\xff\xfe", b"[[[[", b"{\"choices\": 5}"] {
        std::fs::write(home.file(), bytes).unwrap();
        let (_, stderr) = home.shape(&[]).unwrap();
        let warned = stderr.contains("tuning.json") && stderr.contains("tuned again");
        assert!(warned, "{bytes:?}: {stderr}");
        assert_eq!(home.choices().len(), 1);
    }
}

#[test]
fn without_tuning_nothing_is_measured_or_written() {
    let home = Home::new("untuned");
    let Some((class, stderr)) = home.shape(&["--no-tune"]) else {
        return;
    };
    assert!(!stderr.contains("tuned"), "{stderr}");
    assert!(!home.0.join(".cache").join("foretoken").exists());
    let devices = home.run(&["devices", "--json"]).json();
    assert_eq!(devices["adapters"][0]["class_default"], *class);
    assert_eq!(devices["adapters"][0]["tuning"], serde_json::json!([]));
    assert!(home.run(&["devices"]).stdout.contains("not tuned"));

    // A choice that cannot be kept is not made.
    std::fs::create_dir_all(home.0.join(".cache")).unwrap();
    std::fs::write(home.0.join(".cache/foretoken"), b"no folder").unwrap();
    let (taken, stderr) = home.shape(&[]).unwrap();
    assert_eq!(taken, class);
    assert!(stderr.contains("kernels are not tuned"), "{stderr}");

    // The reference has nothing to tune.
    let cpu = home.run(&[
        "complete",
        "--model",
        "tiny",
        "--device",
        "cpu",
        "--no-tune",
        "--prompt",
        "a",
        "--json",
    ]);
    assert_eq!(cpu.code, Some(0), "{}", cpu.stderr);
    assert!(
        !cpu.json()["system_fingerprint"]
            .as_str()
            .unwrap()
            .contains("split=")
    );
}

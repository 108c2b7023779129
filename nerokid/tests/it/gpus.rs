//! The helper that reads cards, against a stand-in for NVIDIA's library and a tree in
//! place of `/sys`.

use std::fs;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nero_journal::gpus;
use nero_journal::v1::{GpuCard, GpuPage, GpuTrouble};

use crate::rig::{Process, until};

/// A folder with the page, the cards' table, and the library that reads it.
struct Cards {
    dir: tempfile::TempDir,
}

impl Cards {
    fn new() -> Self {
        Self::with(&[])
    }

    fn with(options: &[&str]) -> Self {
        let cards = Self {
            dir: tempfile::tempdir().unwrap(),
        };
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/rig/nvml.c");
        let built = Command::new("cc")
            .args(["-shared", "-fPIC", "-Wl,-soname,libnvidia-ml.so.1"])
            .args(options)
            .arg("-o")
            .arg(cards.path("libnvidia-ml.so.1"))
            .arg(source)
            .status()
            .unwrap();
        assert!(built.success());
        cards
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn folder(&self) -> PathBuf {
        self.path("gpus")
    }

    fn set(&self, lines: &[&str]) {
        let private = self.path("table.new");
        fs::write(&private, lines.join("\n") + "\n").unwrap();
        fs::rename(private, self.path("table")).unwrap();
    }

    /// A helper that reads the table.
    fn helper(&self, env: &[(&str, &str)]) -> Process {
        self.helper_with("/none", env)
    }

    fn helper_with(&self, sys: &str, env: &[(&str, &str)]) -> Process {
        let child = Command::new(env!("CARGO_BIN_EXE_nerokid"))
            .arg("gpus")
            .arg(self.folder())
            .arg(sys)
            .env("LD_LIBRARY_PATH", self.dir.path())
            .env("FAKE_NVML", self.path("table"))
            .envs(env.iter().copied())
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        Process(child)
    }

    /// The first page for which `has` holds.
    fn page(&self, has: impl Fn(&GpuPage) -> bool) -> GpuPage {
        until("page", || {
            let page = gpus::read(&self.folder()).unwrap().unwrap_or_default();
            if page.number > 0 && has(&page) {
                Ok(page)
            } else {
                Err(format!("{page:?}"))
            }
        })
    }
}

const FIRST: &str = "H100;GPU-a;37;20;1024;81920;250000;60;";
const SECOND: &str = "H100;GPU-b;0;0;0;81920;70000;35;";

#[test]
fn cards_are_told_with_what_the_driver_measures_and_a_lost_one_is_named() {
    let cards = Cards::new();
    cards.set(&[FIRST, SECOND]);
    let _helper = cards.helper(&[]);
    let page = cards.page(|page| page.cards.len() == 2);
    assert_eq!(page.driver, "NVIDIA 570.00");
    assert_eq!(page.trouble(), GpuTrouble::Unspecified);
    let first = &page.cards[0];
    let expected = GpuCard {
        uuid: "GPU-a".to_owned(),
        name: "H100".to_owned(),
        index: 0,
        memory_bytes: Some(80 << 30),
        used_bytes: Some(1 << 30),
        utilisation: Some(0.37),
        power_w: Some(250.0),
        temperature_c: Some(60.0),
        unseen_bytes: 1 << 30,
        ..GpuCard::default()
    };
    assert_eq!(*first, expected);
    cards.set(&[FIRST]);
    let page = cards.page(|page| page.cards.iter().any(|card| card.is_lost));
    assert_eq!((page.cards.len(), &*page.cards[1].uuid), (2, "GPU-b"));
    assert!(!page.cards[0].is_lost);
}

#[test]
fn foreign_processes_are_named_and_those_of_runs_with_cards_are_not_foreign() {
    let cards = Cards::new();
    let sleep = |given: Option<&str>| {
        let mut command = Command::new("sleep");
        command.arg("600").env_remove("NERO_GPUS");
        command.envs(given.map(|given| ("NERO_GPUS", given)));
        Process(command.spawn().unwrap())
    };
    let all = [None, Some("1"), Some("unmanaged"), Some("0")].map(sleep);
    let pids = all.each_ref().map(|process| process.0.id());
    let named = pids.map(|pid| format!("{pid}:64")).join(",");
    cards.set(&[&format!("{FIRST}{named},999999999:512")]);
    let _helper = cards.helper(&[]);
    let page = cards.page(|page| {
        let card = page.cards.first();
        card.is_some_and(|card| card.processes.iter().all(|one| one.name == "sleep"))
    });
    let card = &page.cards[0];
    let foreign: Vec<bool> = card.processes.iter().map(|one| one.is_foreign).collect();
    assert_eq!(foreign, [true, false, true, true]);
    assert!(card.processes.iter().all(|one| !one.user.is_empty()));
    assert_eq!(card.foreign_ns, page.boot_ns);
    assert_eq!(
        card.unseen_bytes,
        (1024 - 4 * 64) << 20,
        "of no visible process"
    );
}

#[test]
fn a_split_card_is_told_as_its_slices() {
    let cards = Cards::new();
    cards.set(&[
        FIRST,
        "slice;MIG-a;10;40960;",
        "slice;MIG-b;0;40960;",
        SECOND,
    ]);
    let _helper = cards.helper(&[]);
    let page = cards.page(|page| !page.cards.is_empty());
    let told: Vec<_> = page
        .cards
        .iter()
        .map(|card| (&*card.uuid, card.is_slice, card.index))
        .collect();
    assert_eq!(
        told,
        [("MIG-a", true, 0), ("MIG-b", true, 0), ("GPU-b", false, 1)]
    );
    assert_eq!(
        page.cards[0].utilisation, None,
        "the driver knows it of whole cards"
    );
    assert_eq!(page.cards[0].memory_bytes, Some(40 << 30));
}

#[test]
fn what_is_wrong_with_a_driver_is_told_apart() {
    for (error, trouble) in [
        ("9", GpuTrouble::NotLoaded),
        ("18", GpuTrouble::Mismatched),
        ("999", GpuTrouble::Broken),
    ] {
        let cards = Cards::new();
        let _helper = cards.helper(&[("FAKE_NVML_ERROR", error)]);
        let page = cards.page(|_| true);
        assert_eq!(page.trouble(), trouble);
        assert!(!page.detail.is_empty());
    }
    let cards = Cards::new();
    fs::remove_file(cards.path("libnvidia-ml.so.1")).unwrap();
    let mut helper = cards.helper(&[]);
    assert!(helper.ended().success(), "there is nothing to read");
    assert_eq!(cards.page(|_| true).trouble(), GpuTrouble::Absent);
}

#[test]
fn an_old_driver_lacks_single_readings_and_has_the_others() {
    let own = std::process::id();
    let busy = format!("{FIRST}{own}:500");
    for (options, lacks) in [
        (&["-DOLD"][..], &["memory", "power"][..]),
        (&["-DOLD", "-DANCIENT"], &["memory", "power", "processes"]),
    ] {
        let cards = Cards::with(options);
        cards.set(&[&busy]);
        let _helper = cards.helper(&[]);
        let page = cards.page(|page| !page.cards.is_empty());
        assert_eq!(page.lacks, lacks);
        let card = &page.cards[0];
        assert_eq!((card.memory_bytes, card.power_w), (None, None));
        assert_eq!(card.utilisation, Some(0.37));
        assert_eq!(card.temperature_c, Some(60.0));
        let pids: Vec<i32> = card.processes.iter().map(|one| one.pid).collect();
        let is_ancient = lacks.contains(&"processes");
        let there = if is_ancient { vec![] } else { vec![own as i32] };
        assert_eq!(pids, there, "{options:?}");
    }
}

#[test]
fn a_helper_that_hangs_holds_nothing_and_the_next_one_takes_over() {
    let cards = Cards::new();
    cards.set(&[FIRST]);
    let fifo = cards.path("hang");
    let made = Command::new("mkfifo").arg(&fifo).status().unwrap();
    assert!(made.success());
    let hang = fifo.to_str().unwrap().to_owned();
    let hung = cards.helper(&[("FAKE_NVML_HANG", &hang)]);
    let pid = hung.0.id() as i32;
    until("page from before the driver was called", || {
        let page = gpus::read(&cards.folder()).unwrap().ok_or("none")?;
        (page.number == 0).then_some(()).ok_or(format!("{page:?}"))
    });
    // It closes its page just after that has its name, and then calls the driver.
    until("a helper that holds nothing of ours", || {
        let open: Vec<PathBuf> = fs::read_dir(format!("/proc/{pid}/fd"))
            .unwrap()
            .filter_map(|one| fs::read_link(one.unwrap().path()).ok())
            .collect();
        let ours = |path: &PathBuf| path.starts_with(cards.folder());
        (!open.iter().any(ours))
            .then_some(())
            .ok_or(format!("{open:?}"))
    });
    let next = cards.helper(&[]);
    let page = cards.page(|page| !page.cards.is_empty());
    assert_eq!(page.helper.unwrap().pid, next.0.id() as i32);
    // Its call returns: the page is another's now.
    let mut hung = hung;
    let away = cards.path("hung");
    fs::rename(&fifo, &away).unwrap();
    until("end of the older helper", || {
        let mut writer = fs::OpenOptions::new();
        // Fails when no call waits.
        let _ = writer
            .write(true)
            .custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32)
            .open(&away);
        hung.0
            .try_wait()
            .unwrap()
            .map(|_| ())
            .ok_or("alive".to_owned())
    });
}

#[test]
fn amd_cards_are_read_from_files_of_the_kernel() {
    let cards = Cards::new();
    fs::remove_file(cards.path("libnvidia-ml.so.1")).unwrap();
    let sys = cards.path("sys");
    let write = |path: &str, text: &str| {
        let path = sys.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("class/kfd/kfd/topology/nodes/0/gpu_id", "0\n");
    // A card whose device is not told of is numbered all the same.
    write("class/kfd/kfd/topology/nodes/2/gpu_id", "4100\n");
    for (node, gpu, minor, unique) in [(1, 4098, 129, "aa"), (3, 4099, 128, "bb")] {
        let folder = format!("class/kfd/kfd/topology/nodes/{node}");
        write(&format!("{folder}/gpu_id"), &format!("{gpu}\n"));
        write(
            &format!("{folder}/properties"),
            &format!("simd_count 4\ndrm_render_minor {minor}\n"),
        );
        let device = format!("class/drm/renderD{minor}/device");
        write(&format!("{device}/vendor"), "0x1002\n");
        write(&format!("{device}/unique_id"), &format!("{unique}\n"));
        write(&format!("{device}/gpu_busy_percent"), "42\n");
        write(&format!("{device}/mem_info_vram_total"), "17163091968\n");
        write(&format!("{device}/mem_info_vram_used"), "1048576\n");
        write(
            &format!("{device}/hwmon/hwmon3/power1_average"),
            "95000000\n",
        );
        write(&format!("{device}/hwmon/hwmon3/temp1_input"), "51000\n");
    }
    let own = std::process::id();
    write(&format!("class/kfd/kfd/proc/{own}/vram_4099"), "524288\n");
    let _helper = cards.helper_with(sys.to_str().unwrap(), &[]);
    let page = cards.page(|page| page.cards.len() == 2);
    assert_eq!(page.trouble(), GpuTrouble::Unspecified);
    let told: Vec<_> = page
        .cards
        .iter()
        .map(|card| (card.index, &*card.uuid))
        .collect();
    assert_eq!(told, [(0, "GPU-aa"), (2, "GPU-bb")], "as ROCm numbers them");
    let card = &page.cards[1];
    assert!(card.is_amd);
    assert_eq!(
        (card.utilisation, card.power_w, card.temperature_c),
        (Some(0.42), Some(95.0), Some(51.0))
    );
    assert_eq!(card.processes[0].pid, own as i32);
    assert_eq!(card.processes[0].bytes, Some(512 << 10));
}

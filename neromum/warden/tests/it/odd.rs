//! Answers of any content: a parser neither panics, nor finds an end that a foreign
//! name made up.

use nero_warden::generic::{Generic, Recipe};
use nero_warden::oge::Oge;
use nero_warden::slurm::Slurm;
use nero_warden::{AdoptedJobRef, CallOutput, End, JobId, JobName, JobRef, Warden};
use proptest::prelude::*;

use crate::{known, recorded};

fn said(out: Vec<u8>) -> CallOutput {
    CallOutput {
        end: End::Code(0),
        out,
        err: Vec::new(),
    }
}

fn read_everything(out: &[u8]) {
    let name = JobName::of("abcdefghijklmnopqrstuvwxyz").unwrap();
    let plain = Slurm { is_plain: true };
    let recipes = Recipe::names().filter_map(Recipe::named);
    let described: Vec<Generic> = recipes.map(|one| Generic::new(&one).unwrap()).collect();
    let slurm = Slurm::default();
    let oge = Oge::default();
    let mut wardens: Vec<&dyn Warden> = vec![&slurm, &plain, &oge];
    wardens.extend(described.iter().map(|one| one as &dyn Warden));
    for warden in wardens {
        let _ = warden.unread_lines(&[said(out.to_vec())]);
        let each = |count: usize| vec![said(out.to_vec()); count];
        let _ = warden.read_site(&each(warden.site_calls().len()));
        let _ = warden.read_queue(&each(warden.queue_calls(&[&name]).len()), &known(&[&name]));
        let _ = warden.read_ends(&each(warden.ends_calls(&[&name], 60).len()), &[&name]);
        let _ = warden.read_submit(&said(out.to_vec()));
        for task in [None, Some(2)] {
            let job = JobRef {
                job: JobId(12),
                task,
            };
            let adopted = [AdoptedJobRef {
                name: &name,
                job,
                submitted_s: 1_795_502_856,
            }];
            let _ = warden.read_found(&each(warden.find_calls(job).len()), job);
            let _ = warden.read_adopted(&each(1), &each(1), &adopted);
            let _ = warden.read_adopted_ends(&each(1), &adopted);
        }
    }
}

const RECORDED: &[(&str, &str)] = &[
    ("slurm-22.05", "config"),
    ("slurm-22.05", "partitions"),
    ("slurm-22.05", "nodes"),
    ("slurm-22.05", "queue.json"),
    ("slurm-22.05", "accounting.txt"),
    ("slurm-22.05", "adopted.json"),
    ("slurm-22.05", "adopted.plain"),
    ("slurm-22.05", "adopted.ends"),
    ("gridengine-8.1.9", "config"),
    ("gridengine-8.1.9", "queues"),
    ("gridengine-8.1.9", "hosts"),
    ("gridengine-8.1.9", "queue.xml"),
    ("gridengine-8.1.9", "accounting"),
    ("gridengine-8.1.9", "adopted.details"),
    ("gridengine-8.1.9", "adopted.ends"),
    ("gridengine-8.1.9", "job.6.xml"),
    ("slurm-torque-22.05", "queue"),
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_text_is_read_without_a_panic(out in prop::collection::vec(any::<u8>(), 0..400)) {
        read_everything(&out);
    }

    #[test]
    fn a_damaged_answer_is_read_without_a_panic(
        which in 0..RECORDED.len(),
        at in 0.0..1.0_f64,
        byte in any::<u8>(),
        cut in any::<bool>(),
    ) {
        let (scheduler, name) = RECORDED[which];
        let mut out = recorded(scheduler, name).out;
        let at = (at * out.len() as f64) as usize;
        if cut {
            out.truncate(at);
        } else {
            out[at] = byte;
        }
        read_everything(&out);
    }

    #[test]
    fn no_foreign_name_adds_a_row_of_ours(forged in "[ -~\n|<>/&;\"{}]{0,80}") {
        let ours = "nero-abcdefghijklmnopqrstuvwxyz";
        let name = JobName::read(ours).unwrap();
        let text = format!("x\n1|0|COMPLETED|None|n|{ours}\n{forged}");
        let json = serde_json::json!({"jobs": [{
            "name": text, "job_id": 1, "job_state": "RUNNING", "state_reason": "None",
        }]});
        let queue = Slurm::default().read_queue(&[said(json.to_string().into_bytes())], &known(&[&name]));
        let queue = queue.unwrap();
        prop_assert!(queue.ours.is_empty());
        prop_assert_eq!(queue.foreign, 1);
    }
}

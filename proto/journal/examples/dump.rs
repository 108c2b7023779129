//! Prints the records of segments, one line each: for looking into a run.
//!
//! `cargo run -p nero-journal --example dump -- RUN_DIR/1/claim …`

use nero_journal::v1::{JobExited, Metrics, RecordKind, TreeGone, WatchEnded};
use nero_journal::{Record, scan};

fn main() {
    for path in std::env::args_os().skip(1) {
        println!("{}", path.display());
        let bytes =
            std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        match scan(&bytes) {
            Err(error) => println!("  {error}"),
            Ok((header, mut reader)) => {
                println!(
                    "  {:?} segment {} incarnation {}",
                    header.writer, header.segment, header.incarnation
                );
                for record in reader.by_ref() {
                    println!(
                        "  {:>8} {:>4} {}",
                        record.offset,
                        record.sequence,
                        told(&record)
                    );
                }
                println!("  {:?} at {}", reader.stop(), reader.offset());
            }
        }
    }
}

fn told(record: &Record<'_>) -> String {
    let kind = RecordKind::try_from(i32::from(record.kind));
    let name = kind.map_or_else(
        |_| format!("kind {}", record.kind),
        |kind| format!("{kind:?}"),
    );
    let detail = match kind {
        Ok(RecordKind::Metrics) => record.decode::<Metrics>().map(|all| {
            format!(
                "{} points, names {:?}, read to {:?}",
                all.values.len(),
                all.names,
                all.read_to
            )
        }),
        Ok(RecordKind::JobExited) => record.decode::<JobExited>().map(|one| format!("{one:?}")),
        Ok(RecordKind::TreeGone) => record.decode::<TreeGone>().map(|one| format!("{one:?}")),
        Ok(RecordKind::WatchEnded) => record.decode::<WatchEnded>().map(|one| format!("{one:?}")),
        _ => Ok(format!("{} bytes", record.payload.len())),
    };
    format!(
        "{name} {}",
        detail.unwrap_or_else(|error| error.to_string())
    )
}

//! The readings of one run's own cards, for its samples: from the helper's page, never
//! from the driver.

use std::path::PathBuf;

use nero_journal::gpus;
use nero_journal::v1::{GpuCard, GpuPage, Sample};

/// The cards that a run was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnCards {
    folder: PathBuf,
    uuids: Vec<String>,
}

impl OwnCards {
    /// With names between commas.
    pub fn of(folder: PathBuf, uuids: &str) -> Self {
        Self {
            folder,
            uuids: uuids.split(',').map(str::to_owned).collect(),
        }
    }

    /// The cards with their numbers and names; a UUID alone where these are not known.
    pub fn named(&self) -> Vec<String> {
        let page = self.page();
        let named = |uuid: &String| {
            let mut cards = page.iter().flat_map(|page| &page.cards);
            let card = cards.find(|card| card.uuid == *uuid)?;
            Some(format!("{}: {}", card.index, card.name))
        };
        let each = self.uuids.iter();
        each.map(|uuid| named(uuid).unwrap_or_else(|| uuid.clone()))
            .collect()
    }

    fn page(&self) -> Option<GpuPage> {
        gpus::note_reader(&self.folder);
        let page = gpus::read(&self.folder).ok()??;
        let boot_id = nero_model::process::boot_id().ok()?;
        page.is_fresh(gpus::boot_ns(), &boot_id).then_some(page)
    }

    /// Fills in what is known of them now. `tree`: the run's processes.
    pub fn measure(&self, tree: &[i32], sample: &mut Sample) {
        let Some(page) = self.page() else {
            return;
        };
        let find = |uuid: &String| {
            let mut cards = page.cards.iter();
            cards.find(|card| card.uuid == *uuid && !card.is_lost)
        };
        let Some(cards) = self.uuids.iter().map(find).collect::<Option<Vec<_>>>() else {
            return;
        };
        let tells_processes = page.lacks.iter().all(|lacked| lacked != "processes");
        fill(&cards, tree, tells_processes, sample);
    }
}

fn fill(cards: &[&GpuCard], tree: &[i32], tells_processes: bool, sample: &mut Sample) {
    let all = |of: fn(&GpuCard) -> Option<f64>| {
        let each = cards.iter().map(|card| of(card));
        each.collect::<Option<Vec<f64>>>()
            .filter(|all| !all.is_empty())
    };
    let used = all(|card| card.utilisation);
    sample.gpu = used.map(|used| used.iter().sum::<f64>() / used.len() as f64);
    sample.gpu_power_w = all(|card| card.power_w).map(|power| power.iter().sum());
    sample.gpu_temperature_c =
        all(|card| card.temperature_c).and_then(|each| each.into_iter().reduce(f64::max));
    let processes = cards.iter().flat_map(|card| &card.processes);
    let own = processes.filter(|process| tree.contains(&process.pid));
    let bytes: Option<Vec<u64>> = own.map(|process| process.bytes).collect();
    let bytes = bytes.filter(|_| tells_processes);
    sample.gpumem_bytes = bytes.map(|bytes| bytes.into_iter().fold(0, u64::saturating_add));
}

#[cfg(test)]
mod tests {
    use super::*;
    use nero_journal::v1::GpuProcess;

    #[test]
    fn a_sample_has_the_mean_of_the_cards_and_the_memory_of_the_run_alone() {
        let process = |pid, bytes| GpuProcess {
            pid,
            bytes: Some(bytes),
            ..GpuProcess::default()
        };
        let card = |utilisation, temperature, processes| GpuCard {
            utilisation: Some(utilisation),
            power_w: Some(100.0),
            temperature_c: Some(temperature),
            processes,
            ..GpuCard::default()
        };
        let first = card(0.5, 60.0, vec![process(7, 100), process(9, 900)]);
        let second = card(1.0, 70.0, vec![process(8, 10)]);
        let mut sample = Sample::default();
        fill(&[&first, &second], &[7, 8], true, &mut sample);
        assert_eq!((sample.gpu, sample.gpumem_bytes), (Some(0.75), Some(110)));
        assert_eq!(
            (sample.gpu_power_w, sample.gpu_temperature_c),
            (Some(200.0), Some(70.0))
        );
        let slice = GpuCard {
            utilisation: None,
            ..first.clone()
        };
        fill(&[&slice], &[7], false, &mut sample);
        assert_eq!((sample.gpu, sample.gpumem_bytes), (None, None), "not 0");
    }
}

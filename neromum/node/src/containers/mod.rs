//! Images and their runtimes: what this node can execute containers with, and the images that
//! runs ask for, brought before a run takes a slot.
//!
//! A run whose image is on its way is refused for now, and handed over again; a run whose image
//! cannot be had here is refused, and another node of its group gets it. Called by the service
//! beside the agent. An image is brought once at a time, whatever asks for it.

mod bring;
mod images;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nero_model::paths::NodePaths;
use nero_wire::v1::{Container, RunSpec};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::staging::container::{Runtime, asked};
use crate::staging::environment::Base;
use crate::staging::store::Store;
use bring::ImageSource;
pub use bring::version;

/// How long a hand-over waits for an image that is on its way.
const PATIENCE: Duration = Duration::from_secs(3);
/// How long what is known of an image is believed. People remove images, and repair what failed.
const IMAGE_KEPT: Duration = Duration::from_secs(30);
/// How long it is believed that a runtime works, or does not.
const RUNTIME_KEPT: Duration = Duration::from_secs(60);

/// An image as its runtime is asked for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadyImage {
    /// The runtime.
    pub runtime: Runtime,
    /// Path of its program.
    pub program: PathBuf,
    /// The image.
    pub name: String,
    /// Its digest; empty: unknown.
    pub digest: String,
}

impl ReadyImage {
    /// How the container of a run that asked for this image is started.
    pub fn into_container(self, asked: Container) -> Container {
        Container {
            runtime: self.runtime.name().to_owned(),
            program: self.program.display().to_string(),
            ready: self.name,
            digest: self.digest,
            ..asked
        }
    }
}

/// Why a run cannot have its container here, or not yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageLack {
    /// In words.
    pub why: String,
    /// What to do.
    pub hint: &'static str,
    /// Whether the same run may be accepted later.
    pub may_pass: bool,
}

/// What is known of an image.
type ImageState = Option<Result<ReadyImage, ImageLack>>;

/// When a runtime was asked whether it works, and its program, or why it does not work.
type RuntimeCheck = (Instant, Result<PathBuf, String>);

/// What a run asks for, and the content of a file that travels with it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ImageKey {
    image: String,
    runtime: String,
    pull: String,
    content: Option<[u8; 32]>,
}

/// Images of one node.
#[derive(Debug)]
pub struct Containers {
    base: Base,
    /// Folder below which the files of runs lie.
    root: PathBuf,
    /// Images that are files or folders.
    folder: PathBuf,
    store: Store,
    /// Whether a scheduler starts the runs, on hosts that share files alone.
    is_shared: bool,
    images: Mutex<HashMap<ImageKey, (watch::Receiver<ImageState>, Instant)>>,
    runtimes: Mutex<HashMap<Runtime, RuntimeCheck>>,
}

/// What a run says of its image: name, runtime, pull, and the hash of its files.
type ImageWish = [Vec<u8>; 4];

/// The images of the runs of one request.
#[derive(Debug, Default)]
pub struct ImagesKnown(HashMap<ImageWish, Result<ReadyImage, ImageLack>>);

impl ImagesKnown {
    /// Writes into a spec how its container is started.
    ///
    /// # Errors
    /// When it has no image here, or not yet.
    pub fn settle(&self, spec: &mut RunSpec) -> Result<(), ImageLack> {
        let Some(container) = asked(spec).cloned() else {
            return Ok(());
        };
        let found = self.0.get(&wish(&container, spec));
        let ready = found
            .cloned()
            .unwrap_or_else(|| Err(on_its_way(&container)))?;
        if let Some(asks) = spec.scheduler.as_mut() {
            asks.container = Some(ready.into_container(container));
        }
        Ok(())
    }
}

impl Containers {
    /// Of a node. `is_shared`: a scheduler starts its runs on other hosts.
    pub fn new(base: Base, paths: &NodePaths, store: Store, is_shared: bool) -> Self {
        Self {
            base,
            root: paths.root().to_path_buf(),
            folder: paths.mum().join("images"),
            store,
            is_shared,
            images: Mutex::default(),
            runtimes: Mutex::default(),
        }
    }

    /// Looks for the images of these runs, and has those brought that are missing. Waits a
    /// moment for them.
    pub async fn find_images(self: &Arc<Self>, runs: &[RunSpec]) -> ImagesKnown {
        let deadline = Instant::now() + PATIENCE;
        let mut known = ImagesKnown::default();
        for spec in runs {
            let Some(container) = asked(spec) else {
                continue;
            };
            let wish = wish(container, spec);
            if known.0.contains_key(&wish) {
                continue;
            }
            let key = key(container, spec, &self.store);
            let mut state = self.state_of(&key, container);
            let found = tokio::time::timeout_at(deadline, state.wait_for(Option::is_some)).await;
            let found = match found {
                Ok(Ok(found)) => found.clone(),
                Ok(Err(_)) | Err(_) => None,
            };
            let found = found.unwrap_or_else(|| Err(on_its_way(container)));
            known.0.insert(wish, found);
        }
        known
    }

    /// Has an image of the node brought, as for a run. Waits a moment for it.
    ///
    /// # Errors
    /// When it is not here, or not yet.
    pub async fn bring_one(
        self: &Arc<Self>,
        container: &Container,
    ) -> Result<ReadyImage, ImageLack> {
        let key = ImageKey {
            image: container.image.clone(),
            runtime: container.runtime.clone(),
            pull: container.pull.clone(),
            content: None,
        };
        let mut state = self.state_of(&key, container);
        let found = tokio::time::timeout(PATIENCE, state.wait_for(Option::is_some)).await;
        match found {
            Ok(Ok(found)) => found.clone().unwrap_or_else(|| Err(on_its_way(container))),
            Ok(Err(_)) | Err(_) => Err(on_its_way(container)),
        }
    }

    /// Forgets what is known of images.
    fn forget(&self) {
        let mut images = self.images.lock().unwrap_or_else(PoisonError::into_inner);
        images.retain(|_, (state, _)| state.borrow().is_none());
    }

    /// The state of an image; looks for it anew where that is not known, or not known any more.
    fn state_of(
        self: &Arc<Self>,
        key: &ImageKey,
        container: &Container,
    ) -> watch::Receiver<ImageState> {
        let mut images = self.images.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((state, since)) = images.get(key) {
            let is_lost = state.has_changed().is_err() && state.borrow().is_none();
            let is_old = state.borrow().is_some() && since.elapsed() > IMAGE_KEPT;
            if !is_lost && !is_old {
                return state.clone();
            }
        }
        let (sender, receiver) = watch::channel(None);
        images.insert(key.clone(), (receiver.clone(), Instant::now()));
        let (containers, key, container) = (self.clone(), key.clone(), container.clone());
        #[expect(
            clippy::disallowed_methods,
            reason = "its outcome is read through the channel; its commands end with it"
        )]
        tokio::spawn(async move {
            let outcome = containers.bring(&key, &container).await;
            if let Err(lack) = &outcome {
                tracing::warn!(image = key.image, why = lack.why, "an image cannot be had");
            }
            let mut images = containers
                .images
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            if let Some((_, since)) = images.get_mut(&key) {
                *since = Instant::now();
            }
            // Nobody waits for it when this fails.
            let _ = sender.send(Some(outcome));
        });
        receiver
    }

    async fn bring(&self, key: &ImageKey, container: &Container) -> Result<ReadyImage, ImageLack> {
        let source = ImageSource::of(&key.image, key.content)?;
        let (runtime, program) = self.runtime(container, &source).await?;
        if self.is_shared && !(runtime.has_image_files() && source.is_file()) {
            return Err(refusal(format!(
                "the hosts of its scheduler share no store of {}",
                runtime.name()
            )));
        }
        bring::bring(self, runtime, &program, &source, container).await
    }

    /// The runtime that a run asks for, or the first one that works.
    async fn runtime(
        &self,
        container: &Container,
        source: &ImageSource,
    ) -> Result<(Runtime, PathBuf), ImageLack> {
        let wanted = Runtime::of_name(&container.runtime);
        let candidates = Runtime::ALL.into_iter().filter(|one| match wanted {
            Some(wanted) => *one == wanted,
            None => source.fits(*one) && (!self.is_shared || one.has_image_files()),
        });
        let mut faults = Vec::new();
        for runtime in candidates {
            match self.working(runtime).await {
                Ok(program) => return Ok((runtime, program)),
                Err(why) => faults.push(match wanted {
                    Some(wanted) => format!("{} does not work here: {why}", wanted.name()),
                    None => format!("{}: {why}", runtime.name()),
                }),
            }
        }
        let faults = faults.join("; ");
        let image = &container.image;
        Err(refusal(match wanted {
            Some(_) => faults,
            None => format!("nothing here can execute the image {image}: {faults}"),
        }))
    }

    /// The program of a runtime that works.
    ///
    /// # Errors
    /// Why it does not.
    pub async fn working(&self, runtime: Runtime) -> Result<PathBuf, String> {
        let known = {
            let runtimes = self.runtimes.lock().unwrap_or_else(PoisonError::into_inner);
            runtimes.get(&runtime).cloned()
        };
        if let Some((since, program)) = known
            && since.elapsed() < RUNTIME_KEPT
        {
            return program;
        }
        let had_pause = runtime == Runtime::Podman && images::has_pause();
        let program = match self.base.find(runtime.program()) {
            Some(program) => version(&self.base, runtime, &program)
                .await
                .map(|_| program),
            None => Err("it is not on the PATH".to_owned()),
        };
        if runtime == Runtime::Podman && !had_pause {
            self.note_pause();
        }
        let mut runtimes = self.runtimes.lock().unwrap_or_else(PoisonError::into_inner);
        runtimes.insert(runtime, (Instant::now(), program.clone()));
        program
    }
}

/// The refusal of a run for this node.
fn refusal(why: String) -> ImageLack {
    ImageLack {
        why,
        hint: "`neroman node doctor NODE` tells what works there; `container: {runtime: …}` names another",
        may_pass: false,
    }
}

fn on_its_way(container: &Container) -> ImageLack {
    ImageLack {
        why: format!("its image {} is being brought", container.image),
        hint: "it is handed over again",
        may_pass: true,
    }
}

/// Equal for runs that ask for the same image; the content of a file among theirs is read once.
fn wish(container: &Container, spec: &RunSpec) -> ImageWish {
    let text = |text: &str| text.as_bytes().to_vec();
    [
        text(&container.image),
        text(&container.runtime),
        text(&container.pull),
        spec.tree.clone(),
    ]
}

fn key(container: &Container, spec: &RunSpec, store: &Store) -> ImageKey {
    ImageKey {
        image: container.image.clone(),
        runtime: container.runtime.clone(),
        pull: container.pull.clone(),
        content: bring::frozen(&container.image, spec, store),
    }
}

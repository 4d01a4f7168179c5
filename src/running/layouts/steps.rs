//! A layout's operations as steps of the engine.

use std::sync::Arc;

use ringfall_engine::files::{FileRequest, FileScript, FileStep, FileTile, OpenHow};
use ringfall_model::facts::EngineLimits;
use ringfall_workloads::layout::{FileOperation, LayoutPlan, LayoutWork, ObjectScript, WorkerTile};

/// Work of that direction on a prefix, cut as the engine cuts it, or each object by itself; none
/// where there is nothing to do.
pub(super) fn request(
    plan: &LayoutPlan,
    work: LayoutWork,
    limits: EngineLimits,
    prefix: u64,
) -> Option<FileRequest> {
    let request = plan.request(work, prefix);
    let request = match limits {
        EngineLimits::Theirs => request,
        EngineLimits::Ours => request.spread(),
    };
    let tiles: Vec<FileTile> = request.tiles.into_iter().filter_map(tile).collect();
    (!tiles.is_empty()).then_some(FileRequest { tiles })
}

/// Has the kernel forget the pages of a file.
pub(super) fn forgetting(path: Arc<str>) -> FileRequest {
    one_script(vec![
        FileOperation::OpenToRead { path, direct: false },
        FileOperation::DropCache,
        FileOperation::Close,
    ])
}

/// Makes a file that nothing is in, and its directories.
pub(super) fn empty(path: Arc<str>) -> FileRequest {
    let directory = path.rsplit_once('/').map(|(directory, _)| directory.into());
    let made = directory.map(|path| FileOperation::MakeDirectories { path });
    let create = FileOperation::Create { path, exclusive: true, truncate: false, direct: false };
    one_script(made.into_iter().chain([create, FileOperation::Close]).collect())
}

fn one_script(operations: Vec<FileOperation>) -> FileRequest {
    FileRequest { tiles: vec![FileTile { scripts: vec![script(ObjectScript { operations })] }] }
}

fn tile(tile: WorkerTile) -> Option<FileTile> {
    let scripts: Vec<FileScript> = tile.scripts.into_iter().map(script).collect();
    (!scripts.is_empty()).then_some(FileTile { scripts })
}

pub(super) fn script(script: ObjectScript) -> FileScript {
    FileScript { steps: script.operations.into_iter().map(step).collect() }
}

fn step(operation: FileOperation) -> FileStep {
    match operation {
        FileOperation::Look { path, ends_if_found } => FileStep::Stat { path, ends_if_found },
        FileOperation::MakeDirectories { path } => FileStep::MakeDirectories { path },
        FileOperation::OpenToRead { path, direct } => {
            FileStep::Open { path, how: OpenHow::Read, direct }
        }
        FileOperation::Create { path, exclusive, truncate, direct } => {
            FileStep::Open { path, how: OpenHow::Create { exclusive, truncate }, direct }
        }
        FileOperation::Write { offset, bytes } => FileStep::Write { offset_bytes: offset, bytes },
        FileOperation::Read { offset, bytes } => FileStep::Read { offset_bytes: offset, bytes },
        FileOperation::Sync => FileStep::Sync,
        FileOperation::DropCache => FileStep::DontNeed,
        FileOperation::Close => FileStep::Close,
        FileOperation::Rename { from, to } => FileStep::Rename { from, to },
    }
}

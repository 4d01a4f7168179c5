//! The program that counts in the kernel.

use ringfall_host::escape;

/// Printed when the probes are attached.
pub(super) const READY: &str = "ringfall-ready";
/// Parts of the device in the heat map.
pub(super) const PARTS: u64 = 256;

/// For the disk of these numbers and so many sectors of 512 bytes.
///
/// Direction 0 reads, 1 writes (also those with a flush before them, `FW…`); discards and empty
/// flushes are not counted. A request is known by its first sector while it is in flight.
pub(super) fn script(major: u32, minor: u32, sectors: u64) -> String {
    // As the kernel's tracepoints have it: MKDEV(major, minor) with 20 bits of minor.
    let device = (u64::from(major) << 20) | u64::from(minor);
    let sectors = sectors.max(1);
    let ready = escape::bpftrace(READY);
    let is_write = r#"strncmp(args->rwbs, "W", 1) == 0 || strncmp(args->rwbs, "FW", 2) == 0"#;
    format!(
        r#"
BEGIN {{ printf("{ready}\n"); }}
tracepoint:block:block_rq_insert /args->dev == {device}/ {{ @inserted[args->sector] = nsecs; }}
tracepoint:block:block_rq_issue /args->dev == {device} && args->bytes > 0/ {{
  $w = {is_write};
  if ($w || strncmp(args->rwbs, "R", 1) == 0) {{
    $at = @inserted[args->sector];
    if ($at != 0) {{
      @queued[$w] = hist((nsecs - $at) / 1000);
      delete(@inserted[args->sector]);
    }}
    @issued[args->sector] = nsecs;
    @size[$w, args->bytes] = count();
    @heat[$w, args->sector * {PARTS} / {sectors}] = count();
  }}
}}
tracepoint:block:block_rq_complete /args->dev == {device} && @issued[args->sector] != 0/ {{
  $w = {is_write};
  $took = nsecs - @issued[args->sector];
  @latency[$w] = hist($took / 1000);
  @took[$w] = sum($took);
  delete(@issued[args->sector]);
}}
END {{ clear(@inserted); clear(@issued); }}
"#
    )
}

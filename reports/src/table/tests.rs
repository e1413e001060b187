//! What must stand in a table, and below it.

use super::*;
use crate::sample;

fn options(width: u16) -> TableOptions {
    TableOptions {
        width,
        ..TableOptions::default()
    }
}

#[test]
fn every_sort_of_cell_has_its_own_word() {
    let text = grid(&sample::matrix(), &options(200));
    assert_eq!(
        text,
        "          local-mutex  naive          tokened  setnx     redlock\n\
         gc-pause  n/a          dbl-write 36%  vacuous  safe <2%  !2 FAILED safe <2%\n"
    );
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    for width in [80, 100, 120, 160] {
        let text = table(&sample::matrix(), &[sample::scenario()], &options(width));
        for line in text.lines() {
            assert!(line.chars().count() <= width.into(), "{width}: {line}");
        }
    }
}

#[test]
fn every_violation_comes_with_its_replay_line() {
    assert_eq!(
        replays(&sample::matrix(), &options(120)),
        "The first seed of every violation, and in how many runs it was seen\n\
         gc-pause\n  \
         fencepost run naive gc-pause --seed 4  double-write 36 %\n  \
         fencepost run naive gc-pause --seed 12  stale-write 1.5 %\n"
    );
}

#[test]
fn a_failed_run_is_told_with_its_replay_line() {
    let text = notes(&sample::matrix(), &[sample::scenario()], &options(80));
    assert!(
        text.contains(
            "FAILED: 2 of 200 runs of redlock under gc-pause: index out of bounds\n  \
             fencepost run redlock gc-pause --seed 17"
        ),
        "{text}"
    );
}

#[test]
fn colours_change_nothing_but_colours() {
    let plain = table(&sample::matrix(), &[sample::scenario()], &options(80));
    let coloured = TableOptions {
        colour: Colour::Always,
        ..options(80)
    };
    let coloured = table(&sample::matrix(), &[sample::scenario()], &coloured);
    let mut stripped = String::new();
    let mut escaped = false;
    for c in coloured.chars() {
        match (c, escaped) {
            ('\u{1b}', _) => escaped = true,
            ('m', true) => escaped = false,
            (_, true) => {}
            (c, false) => stripped.push(c),
        }
    }
    let trimmed: String = stripped
        .lines()
        .map(|line| line.trim_end().to_owned() + "\n")
        .collect();
    assert_ne!(coloured, plain);
    assert_eq!(trimmed, plain);
}

#[test]
fn the_legend_speaks_of_the_seeds_that_were_run() {
    let text = legend(&sample::matrix(), &options(200));
    let line = "safe <2%     no violation in any of 197 runs; with 95 % confidence rarer";
    assert!(text.contains(line), "{text}");
    let mut few = sample::matrix();
    few.cells[3].runs = 20;
    few.cells[4].runs = 0;
    let shown = summary(&few.cells[3]).0;
    assert_eq!(shown, "safe <17%");
    let text = legend(&few, &options(200));
    assert!(text.contains(&shown), "{text}");
    assert!(text.contains("no violation in any of 20 runs"), "{text}");
}

#[test]
fn a_wait_of_a_minute_is_told_from_one_that_never_ended() {
    let mut matrix = sample::matrix();
    for (place, to_the_end, lasted) in [(3, false, 59_001), (4, true, 114_977)] {
        let cell = &mut matrix.cells[place];
        cell.failed = 0;
        cell.violations[1].rate.hits = 197;
        cell.violations[1].first_seed = Some(0);
        cell.stuck_for = Some(StuckFor { to_the_end, lasted });
    }
    assert_eq!(summary(&matrix.cells[3]).0, "stuck 100% 60s");
    assert_eq!(summary(&matrix.cells[4]).0, "stuck 100% end");
    let text = table(&matrix, &[sample::scenario()], &options(200));
    for part in [
        "stuck 100 % (up to 59.001 s)",
        "stuck 100 % (up to 114.977 s to the end of the run)",
        "stuck 97% 60s  so long did it take at the most",
        "stuck 97% end  nobody got the lock any more until the run ended",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
}

#[test]
fn a_double_write_that_is_not_the_worst_is_shown_after_a_slash() {
    let mut cell = sample::matrix().cells.remove(1);
    let mut paid = cell.violations[0].clone();
    (paid.invariant, paid.rate.hits) = ("paid-twice", 191);
    cell.violations.insert(0, paid);
    assert_eq!(summary(&cell).0, "paid-twice 97/36%");
}

//! Parses the tables of scenarios in `docs/directories.md`.

use super::step::{Action, Contents, Engine, Expected, Step, Work};
use super::{Column, Scenario};

/// The column headings of a table of scenarios.
const HEADINGS: [&str; 4] = ["scenario", "made by", "Tailwater", "RocksDB 11"];

/// Returns the scenarios of a document.
pub(super) fn document(text: &str) -> Result<Vec<Scenario>, String> {
    let mut scenarios = Vec::new();
    let mut in_table = false;
    let mut heading = "";
    for (index, line) in text.lines().enumerate() {
        let cells: Vec<&str> = match line.strip_prefix('|').and_then(|it| it.strip_suffix('|')) {
            Some(row) => row.split('|').map(str::trim).collect(),
            None => {
                in_table = false;
                heading = line.strip_prefix("## ").unwrap_or(heading);
                continue;
            }
        };
        let is_rule = cells.iter().all(|cell| !cell.is_empty() && cell.chars().all(|it| it == '-'));
        if cells == HEADINGS {
            in_table = true;
        } else if in_table && !is_rule {
            let row = row(heading, &cells, index + 1);
            scenarios.push(row.map_err(|error| format!("line {}: {error}", index + 1))?);
        }
    }
    Ok(scenarios)
}

fn row(heading: &str, cells: &[&str], line: usize) -> Result<Scenario, String> {
    let [name, made_by, tailwater, rocksdb] = *cells else {
        return Err(format!("{} cells, not 4", cells.len()));
    };
    let scenario = Scenario {
        name: format!("{heading}: {name}"),
        line,
        made_by: steps(made_by)?,
        tailwater: steps(tailwater)?,
        rocksdb: steps(rocksdb)?,
    };
    if name.is_empty() || scenario.steps(Column::Tailwater).is_empty() {
        return Err("no name, or no steps for Tailwater".to_owned());
    }
    Ok(scenario)
}

/// Returns the steps in the code spans of a table's cell. Text outside of code spans is ignored.
fn steps(cell: &str) -> Result<Vec<Step>, String> {
    let code = cell.split('`').skip(1).step_by(2);
    let texts = code.flat_map(|code| code.split(';')).map(str::trim).filter(|it| !it.is_empty());
    texts.map(|text| step(text).map_err(|error| format!("'{text}': {error}"))).collect()
}

/// A word of a step. Text between quotation marks is one word.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Word {
    Plain(String),
    Quoted(String),
}

impl Word {
    fn text(&self) -> &str {
        match self {
            Self::Plain(text) | Self::Quoted(text) => text,
        }
    }

    fn is(&self, text: &str) -> bool {
        matches!(self, Self::Plain(own) if own == text)
    }
}

fn words(text: &str) -> Vec<Word> {
    let quoted_and_not = text.split('"').enumerate();
    let words = quoted_and_not.flat_map(|(index, part)| match index % 2 {
        1 => vec![Word::Quoted(part.to_owned())],
        _ => part.split_whitespace().map(|word| Word::Plain(word.to_owned())).collect(),
    });
    words.collect()
}

/// Parses one step.
fn step(text: &str) -> Result<Step, String> {
    let words = words(text);
    let mut words = words.as_slice();
    let (mut engine, mut may_fail) = (Engine::Own, false);
    while let Some((first, rest)) = words.split_first() {
        match first.text() {
            "rocksdb" => engine = Engine::RocksDb,
            "try" => may_fail = true,
            _ => break,
        }
        words = rest;
    }
    let is_expectation = |word: &Word| word.is("=") || word.is("fails") || word.is("warns");
    let end = words.iter().position(is_expectation).unwrap_or(words.len());
    let (command, expectation) = words.split_at(end);
    let action = action(command)?;
    let expected = expected(expectation)?;
    let is_database = matches!(action, Action::Database(..));
    let is_plain = engine == Engine::Own && !may_fail && expected == Expected::default();
    if !is_database && !is_plain {
        return Err("only operations on databases may have an engine or expectations".to_owned());
    }
    Ok(Step { text: text.to_owned(), engine, may_fail, action, expected })
}

fn action(words: &[Word]) -> Result<Action, String> {
    let Some((verb, rest)) = words.split_first() else { return Err("no words".to_owned()) };
    let texts: Vec<String> = rest.iter().map(|word| word.text().to_owned()).collect();
    let one = || match texts.as_slice() {
        [one] => Ok(one.clone()),
        _ => Err("expected one word".to_owned()),
    };
    let two = || match texts.as_slice() {
        [one, two] => Ok((one.clone(), two.clone())),
        _ => Err("expected two words".to_owned()),
    };
    let some = || match texts.as_slice() {
        [] => Err("expected words".to_owned()),
        _ => Ok(texts.clone()),
    };
    let done = |work: Work| Ok(Action::Database(one()?, work));
    let done_with = |work: fn(String) -> Work| {
        let (database, other) = two()?;
        Ok(Action::Database(database, work(other)))
    };
    let entries = || match texts.split_first() {
        Some((path, entries)) => Ok((path.clone(), pairs(entries)?)),
        None => Err("expected a path".to_owned()),
    };
    match verb.text() {
        "mkdir" => Ok(Action::MakeDirectory(one()?)),
        "write" => Ok(Action::Write(some()?)),
        "copy" => two().map(|(from, to)| Action::Copy(from, to)),
        "rename" => two().map(|(from, to)| Action::Rename(from, to)),
        "remove" => Ok(Action::Remove(some()?)),
        "cut" => Ok(Action::Cut(one()?)),
        "link" => two().map(|(to, path)| Action::Link(to, path)),
        "hardlink" => two().map(|(from, to)| Action::HardLink(from, to)),
        "cd" => Ok(Action::Enter(one()?)),
        "unpack" => two().map(|(name, path)| Action::Unpack(name, path)),
        "there" => Ok(Action::There(some()?)),
        "gone" => Ok(Action::Gone(some()?)),
        "kept" => Ok(Action::Kept(some()?)),
        "with" => entries().map(|(database, options)| Action::With(database, options)),
        "put" => entries().map(|(path, entries)| Action::Database(path, Work::Put(entries))),
        "external" => {
            entries().map(|(path, entries)| Action::Database(path, Work::External(entries)))
        }
        "flush" => done(Work::Flush),
        "compact" => done(Work::Compact),
        "family" => done_with(Work::CreateFamily),
        "drop" => done_with(Work::DropFamily),
        "ingest" => done_with(Work::Ingest),
        "move" => done_with(Work::Move),
        "checkpoint" => done_with(Work::Checkpoint),
        "destroy" => done(Work::Destroy),
        "open" => done(Work::Open),
        "adopt" => done(Work::Adopt),
        "look" => done(Work::Look),
        _ => Err("unknown step".to_owned()),
    }
}

fn pairs(words: &[String]) -> Result<Vec<(String, String)>, String> {
    let pair = |word: &String| {
        let (name, value) = word.split_once('=').ok_or_else(|| format!("'{word}' has no '='"))?;
        Ok((name.to_owned(), value.to_owned()))
    };
    words.iter().map(pair).collect()
}

fn expected(mut words: &[Word]) -> Result<Expected, String> {
    let mut expected = Expected::default();
    while let Some((what, rest)) = words.split_first() {
        let is_next = |word: &Word| word.is("warns") || word.is("fails");
        let end = rest.iter().position(is_next).unwrap_or(rest.len());
        let (own, others) = rest.split_at(end);
        let quoted = || -> Result<Vec<String>, String> {
            let is_quoted = |word: &Word| matches!(word, Word::Quoted(_));
            if own.is_empty() || !own.iter().all(is_quoted) {
                return Err("expected words in quotation marks".to_owned());
            }
            Ok(own.iter().map(|word| word.text().to_owned()).collect())
        };
        match what.text() {
            "=" => {
                let is_empty = own.len() == 1 && own.iter().all(|word| word.is("nothing"));
                let own: Vec<String> = own.iter().map(|word| word.text().to_owned()).collect();
                let found = if is_empty { Vec::new() } else { pairs(&own)? };
                expected.contents = Some(found.into_iter().collect::<Contents>());
            }
            "warns" => expected.warns = quoted()?,
            _ => expected.fails = quoted()?,
        }
        words = others;
    }
    Ok(expected)
}

#[cfg(test)]
mod tests {
    use super::{Action, Engine, Expected, Work, document, step};

    #[test]
    fn a_step_has_an_engine_an_action_and_an_expectation() {
        let read = step("rocksdb open a = k=1 users:l= warns \"the log 7\" \"w\"").unwrap();
        assert_eq!(read.engine, Engine::RocksDb);
        assert_eq!(read.action, Action::Database("a".to_owned(), Work::Open));
        let contents = [("k", "1"), ("users:l", "")];
        let contents = contents.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let warns = vec!["the log 7".to_owned(), "w".to_owned()];
        let contents = Some(contents.into_iter().collect());
        assert_eq!(read.expected, Expected { fails: Vec::new(), contents, warns });
        let read = step("look ../a fails \"two words\"").unwrap();
        assert_eq!(read.expected.fails, ["two words"]);
        let read = step("open a = nothing").unwrap();
        assert_eq!(read.expected.contents, Some(Default::default()));
    }

    #[test]
    fn an_invalid_step_is_refused() {
        for text in ["", "jump", "copy a", "put a k", "open a fails", "gone", "kept a = k=1"] {
            assert!(step(text).is_err(), "{text}");
        }
    }

    #[test]
    fn only_tables_with_the_scenario_headings_are_parsed() {
        let text = "## Logs\n\n| scenario | made by | Tailwater | RocksDB 11 |\n|---|---|---|---|\n\
                    | lost | `put a k=1` and `remove a/*.log` | `open a = nothing` | opens |\n\n\
                    | step | meaning |\n|---|---|\n| `jump` | no step |\n";
        let scenarios = document(text).unwrap();
        assert_eq!(scenarios.len(), 1);
        assert_eq!((scenarios[0].name.as_str(), scenarios[0].line), ("Logs: lost", 5));
        assert_eq!((scenarios[0].made_by.len(), scenarios[0].rocksdb.len()), (2, 0));
        let error = document(&text.replace("remove", "jump")).unwrap_err();
        assert!(error.starts_with("line 5: 'jump a/*.log'"), "{error}");
    }
}

//! Lists: filtered, sorted, cut into pages and columns as RabbitMQ does it. Refuses to know what is listed.
//!
//! A list that is not paged is written while it is made, so that 100,000 queues take no more memory than some of them.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::io::Write;

use broker::policies::{NameSearch, TooManySteps};
use serde_json::{Map, Value, json};

use super::call::Call;
use super::problem::Problem;
use super::rates::Ranges;
use super::reply::{About, Answer, Reply};
use super::room::{Full, LongText};
use super::sort_key::Key;

/// Items of a page without `page_size`.
const PAGE_SIZE: usize = 100;
/// Most items of a page.
const PAGE_SIZE_MAX: usize = 500;
/// Items that are rendered together at first, and at most.
const RENDERED_FIRST: usize = 32;
const RENDERED_MAX: usize = 512;
/// About how many bytes of text they are to have.
const RENDERED_BYTES: usize = 1 << 20;
/// Most paths of `sort`.
const SORT_PATHS_MAX: usize = 8;
/// Most parts of a path of `sort`.
const SORT_PARTS_MAX: usize = 8;
/// Most paths of `columns`.
const COLUMNS_MAX: usize = 256;
/// Most parts of a path of `columns`: deeper than anything in an answer.
const COLUMNS_PARTS_MAX: usize = 64;
/// From so many items on, lists are sorted one at a time: their sort keys take memory.
const SORTED_TOGETHER_MAX: usize = 10_000;

/// Which keys of an item are asked for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Wanted {
    /// All of them.
    All,
    /// Paths such as `message_stats.publish_details.rate`.
    Only(Vec<String>),
}

impl Wanted {
    /// The paths of a list, each once.
    ///
    /// # Errors
    /// 400 for more than that; `what` is the name of the list.
    fn of(list: &str, what: &str, count_max: usize) -> Result<Self, Problem> {
        let mut paths: Vec<String> = Vec::new();
        for path in list.split(',').filter(|path| !path.is_empty()) {
            if paths.iter().any(|known| known == path) {
                continue;
            }
            if paths.len() == count_max {
                return Err(Problem::bad(format!("{what} has at most {count_max} names")));
            }
            paths.push(path.to_owned());
        }
        Ok(Self::Only(paths))
    }

    /// The columns that are asked for.
    fn columns(call: &Call) -> Result<Self, Problem> {
        let Some(list) = call.query("columns") else { return Ok(Wanted::All) };
        let wanted = Wanted::of(list, "columns", COLUMNS_MAX)?;
        wanted.check_depth("columns", COLUMNS_PARTS_MAX)?;
        Ok(wanted)
    }

    /// Each part of a path is looked for in each item.
    fn check_depth(&self, what: &str, parts_max: usize) -> Result<(), Problem> {
        let Wanted::Only(paths) = self else { return Ok(()) };
        match paths.iter().all(|path| path.split('.').nth(parts_max).is_none()) {
            true => Ok(()),
            false => Err(Problem::bad(format!("names in {what} have at most {parts_max} parts"))),
        }
    }

    /// Whether a path has this in it.
    pub(crate) fn mentions(&self, part: &str) -> bool {
        match self {
            Wanted::All => true,
            Wanted::Only(paths) => paths.iter().any(|path| path.contains(part)),
        }
    }

    /// Whether anything but these keys is asked for.
    pub(crate) fn beyond(&self, keys: &[&str]) -> bool {
        match self {
            Wanted::All => true,
            Wanted::Only(paths) => {
                paths.iter().any(|path| path.split('.').next().is_none_or(|key| !keys.contains(&key)))
            }
        }
    }
}

/// The function that makes JSON of items.
pub(crate) type Render<T> = Box<dyn Fn(&[T], &Wanted) -> Vec<Value>>;

/// Things to list.
pub(crate) struct Listing<T> {
    items: Vec<T>,
    /// The text in which `name` is searched.
    name: fn(&T) -> Cow<'_, str>,
    render: Render<T>,
    /// The order without `sort`, unless it is that of the items.
    order: Option<fn(&T, &T) -> Ordering>,
    /// The value at a path, where that is less work than the whole item.
    peek: fn(&T, &str) -> Option<Value>,
}

impl<T> Listing<T> {
    /// All of them as JSON.
    pub(crate) fn values(&self, wanted: &Wanted) -> Vec<Value> {
        (self.render)(&self.items, wanted)
    }

    /// Of values that are there already.
    pub(crate) fn new(
        items: Vec<T>,
        name: fn(&T) -> Cow<'_, str>,
        render: impl Fn(&[T], &Wanted) -> Vec<Value> + 'static,
    ) -> Self {
        Self { items, name, render: Box::new(render), order: None, peek: |_, _| None }
    }

    /// For very many items, which come in any order: no more of them are brought into their order than a page shows, and
    /// `sort` looks at them without making them whole where `peek` knows the value.
    pub(crate) fn of_many(self, order: fn(&T, &T) -> Ordering, peek: fn(&T, &str) -> Option<Value>) -> Self {
        Self { order: Some(order), peek, ..self }
    }
}

/// Brings the items of a page to the places that they have among all in order; the others stand anywhere.
fn place<T>(items: &mut [T], begin: usize, end: usize, order: impl Fn(&T, &T) -> Ordering) {
    if begin > 0 && begin < items.len() {
        items.select_nth_unstable_by(begin, &order);
    }
    let (items, count) = (&mut items[begin..], end - begin);
    if count < items.len() {
        items.select_nth_unstable_by(count, &order);
    }
    items[..count].sort_unstable_by(&order);
}

/// Of JSON objects that are there already, all of them.
pub(crate) fn of_values(call: &Call, values: Vec<Value>) -> Answer {
    whole(call, ready(values))
}

/// The same, where RabbitMQ has pages.
pub(crate) fn pages_of_values(call: &Call, values: Vec<Value>) -> Answer {
    answer(call, ready(values))
}

fn ready(values: Vec<Value>) -> Listing<Value> {
    let name = |value: &Value| Cow::Owned(value["name"].as_str().unwrap_or_default().to_owned());
    Listing::new(values, name, |values: &[Value], _: &Wanted| values.to_vec())
}

/// Where a page begins and how long it is.
#[derive(Debug, PartialEq)]
struct Page {
    number: usize,
    size: usize,
}

impl Page {
    fn asked(call: &Call) -> Result<Option<Self>, Problem> {
        let Some(number) = call.query("page") else { return Ok(None) };
        let invalid = || Problem::bad("Pagination parameters are invalid");
        let parse = |text: &str| text.parse::<i64>().map_err(|_| invalid());
        let (number, size) = (parse(number)?, call.query("page_size").map(parse).transpose()?);
        let given = size.map_or("undefined".to_owned(), |size| size.to_string());
        let size = size.map_or(Some(PAGE_SIZE), |size| usize::try_from(size).ok());
        match (usize::try_from(number), size) {
            (Ok(number @ 1..), Some(size @ 1..=PAGE_SIZE_MAX)) => Ok(Some(Self { number, size })),
            _ => {
                let text = format!("Invalid pagination parameters: page number {number}, page size {given}");
                Err(Problem::new(400, "invalid_pagination_parameters", text))
            }
        }
    }
}

/// Answers a request for a list.
pub(crate) fn answer<T: 'static>(call: &Call, listing: Listing<T>) -> Answer {
    let page = Page::asked(call)?;
    paged(call, listing, page)
}

/// A list that RabbitMQ never cuts into pages: `page` means nothing, unless `pagination=true` says that pages are really meant.
pub(crate) fn whole<T: 'static>(call: &Call, listing: Listing<T>) -> Answer {
    let page = if call.flag("pagination") { Page::asked(call)? } else { None };
    paged(call, listing, page)
}

fn paged<T: 'static>(call: &Call, mut listing: Listing<T>, page: Option<Page>) -> Answer {
    if let Some(problem) = Ranges::problem(call) {
        return Err(Problem::new(400, "invalid_range_parameters", problem));
    }
    let columns = Wanted::columns(call)?;
    let total = listing.items.len();
    if page.is_some() {
        filter(call, &mut listing)?;
    }
    let filtered = listing.items.len();
    let Some(page) = page else {
        arrange(call, &mut listing, 0, filtered)?;
        return Ok(stream(listing, columns));
    };
    let pages = filtered.div_ceil(page.size);
    if page.number > pages.max(1) {
        let text =
            format!("Page out of range, page: {} page size: {}, len: {filtered}", page.number, page.size);
        return Err(Problem::new(400, "page_out_of_range", text));
    }
    let begin = (page.number - 1) * page.size;
    let end = (begin + page.size).min(filtered);
    arrange(call, &mut listing, begin, end)?;
    let about = json!({
        "total_count": total,
        "item_count": end - begin,
        "filtered_count": filtered,
        "page": page.number,
        "page_size": page.size,
        "page_count": pages,
    });
    let mut text = LongText::new(&call.app.answers);
    let write = |out: &mut LongText| {
        // All of the object but its end.
        out.write_all(about.to_string().strip_suffix('}').unwrap_or_default().as_bytes())?;
        out.write_all(b",\"items\":")?;
        write_items(&listing, &listing.items[begin..end], &columns, out)?;
        out.write_all(b"}")
    };
    write(&mut text).map_err(|_| Full)?;
    Ok(Reply::Written(text))
}

/// Keeps items whose names contain `name`, or match it with `use_regex=true`; case does not matter. RabbitMQ finds nothing
/// with a pattern that is none.
///
/// # Errors
/// 400 for a pattern that would take too long.
fn filter<T>(call: &Call, listing: &mut Listing<T>) -> Result<(), Problem> {
    let Some(wanted) = call.query("name").filter(|name| !name.is_empty()) else { return Ok(()) };
    let name = listing.name;
    if !call.flag("use_regex") {
        let wanted = wanted.to_lowercase();
        listing.items.retain(|item| name(item).to_lowercase().contains(&wanted));
        return Ok(());
    }
    let search = NameSearch::of_any_case(wanted, listing.items.len());
    let mut found = Vec::new();
    for item in listing.items.drain(..) {
        let is_found = search.matches(name(&item).as_bytes()).map_err(|TooManySteps| {
            Problem::bad(
                "the regular expression takes too many steps to be matched with all names; use a simpler one",
            )
        })?;
        found.extend(is_found.then_some(item));
    }
    listing.items = found;
    Ok(())
}

/// Puts items where they belong, from `begin` to `end` at least: by the values at the paths in `sort`, and where those are the
/// same, or there are none, in the order of the list.
///
/// # Errors
/// 400 for too many paths, and for paths of too many parts.
fn arrange<T>(call: &Call, listing: &mut Listing<T>, begin: usize, end: usize) -> Result<(), Problem> {
    let Some(by) = call.query("sort").filter(|by| !by.is_empty()) else {
        if let Some(order) = listing.order {
            place(&mut listing.items, begin, end, order);
        }
        return Ok(());
    };
    let wanted = Wanted::of(by, "sort", SORT_PATHS_MAX)?;
    wanted.check_depth("sort", SORT_PARTS_MAX)?;
    let Wanted::Only(paths) = &wanted else { return Ok(()) };
    let _turn = (listing.items.len() > SORTED_TOGETHER_MAX).then(|| call.app.sorting.lock());
    let mut keys: Vec<Box<[Key]>> = Vec::with_capacity(listing.items.len());
    for items in listing.items.chunks(RENDERED_MAX) {
        keys.extend(sort_keys(listing, items, paths, &wanted));
    }
    let reverse = call.flag("sort_reverse");
    let by_keys = |one: &[Key], other: &[Key]| {
        let mut orders = one.iter().zip(other).map(|(one, other)| one.compare(other));
        let order = orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal);
        if reverse { order.reverse() } else { order }
    };
    let mut keyed: Vec<(Box<[Key]>, T)> = keys.into_iter().zip(listing.items.drain(..)).collect();
    match listing.order {
        Some(order) => place(&mut keyed, begin, end, |(one_keys, one), (other_keys, other)| {
            by_keys(one_keys, other_keys).then_with(|| order(one, other))
        }),
        None => keyed.sort_by(|(one, _), (other, _)| by_keys(one, other)),
    }
    listing.items.extend(keyed.into_iter().map(|(_, item)| item));
    Ok(())
}

/// The values to sort by; items are made only where one of them cannot be had otherwise.
fn sort_keys<T>(listing: &Listing<T>, items: &[T], paths: &[String], wanted: &Wanted) -> Vec<Box<[Key]>> {
    let peek = |item: &T, path: &str| (listing.peek)(item, path).map(|value| Key::of(&value));
    let peeked = |item: &T| paths.iter().map(|path| peek(item, path)).collect::<Option<_>>();
    let of_whole = |value: &Value| paths.iter().map(|path| Key::of(at(value, path))).collect();
    let keys: Vec<Option<Box<[Key]>>> = items.iter().map(peeked).collect();
    if keys.iter().all(Option::is_none) {
        return (listing.render)(items, wanted).iter().map(of_whole).collect();
    }
    let whole =
        |item: &T| of_whole(&(listing.render)(std::slice::from_ref(item), wanted).pop().unwrap_or_default());
    items.iter().zip(keys).map(|(item, key)| key.unwrap_or_else(|| whole(item))).collect()
}

fn at<'a>(value: &'a Value, path: &str) -> &'a Value {
    path.split('.').try_fold(value, |value, key| value.get(key)).unwrap_or(&Value::Null)
}

fn rendered<T>(listing: &Listing<T>, items: &[T], columns: &Wanted) -> Vec<Value> {
    let values = (listing.render)(items, columns);
    values.into_iter().map(|value| prune(value, columns)).collect()
}

fn stream<T: 'static>(listing: Listing<T>, columns: Wanted) -> Reply {
    let write = move |mut out: &mut dyn Write| write_items(&listing, &listing.items, &columns, &mut out);
    Reply::Stream(Box::new(write), About::default())
}

/// Items as a list. As many are rendered together as seems good by those before: items with very long arguments few at a time.
fn write_items<T>(
    listing: &Listing<T>,
    mut items: &[T],
    columns: &Wanted,
    out: &mut impl Write,
) -> std::io::Result<()> {
    out.write_all(b"[")?;
    let (mut is_first, mut together) = (true, RENDERED_FIRST);
    while !items.is_empty() {
        let (now, later) = items.split_at(together.min(items.len()));
        let mut counted = Counted { out: &mut *out, bytes: 0 };
        for value in rendered(listing, now, columns) {
            if !std::mem::take(&mut is_first) {
                counted.write_all(b",")?;
            }
            serde_json::to_writer(&mut counted, &value)?;
        }
        together = next_together(together, counted.bytes);
        items = later;
    }
    out.write_all(b"]")
}

/// How many items to render together after so many took so many bytes.
const fn next_together(together: usize, bytes: usize) -> usize {
    let fitting = RENDERED_BYTES * together / if bytes == 0 { 1 } else { bytes };
    let most = if RENDERED_MAX < 2 * together { RENDERED_MAX } else { 2 * together };
    if fitting == 0 {
        1
    } else if fitting < most {
        fitting
    } else {
        most
    }
}

/// Counts what is written.
struct Counted<'a, W> {
    out: &'a mut W,
    bytes: usize,
}

impl<W: Write> Write for Counted<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.bytes += bytes.len();
        self.out.write_all(bytes).map(|()| bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}

/// One thing, with the columns asked for.
pub(crate) fn one(call: &Call, value: Value) -> Answer {
    if let Some(problem) = Ranges::problem(call) {
        return Err(Problem::bad(problem));
    }
    let columns = Wanted::columns(call)?;
    Ok(Reply::Json(prune(value, &columns)))
}

/// Only what the paths lead to.
fn prune(value: Value, columns: &Wanted) -> Value {
    let Wanted::Only(paths) = columns else { return value };
    let mut kept = Map::new();
    for path in paths {
        let words: Vec<&str> = path.split('.').collect();
        keep(&value, &words, &mut kept);
    }
    Value::Object(kept)
}

fn keep(from: &Value, path: &[&str], to: &mut Map<String, Value>) {
    let [key, rest @ ..] = path else { return };
    let Some(value) = from.get(*key) else { return };
    if rest.is_empty() {
        to.insert((*key).to_owned(), value.clone());
    } else if let Value::Object(inner) = to.entry(*key).or_insert_with(|| Value::Object(Map::new())) {
        keep(value, rest, inner);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_keep_what_their_paths_lead_to() {
        let value = json!({"name": "q", "a": {"b": {"c": 1, "d": 2}, "e": 3}, "f": 4});
        let columns = Wanted::of("name,a.b.c,a.e,none.x,name", "columns", 4).unwrap();
        assert_eq!(prune(value, &columns), json!({"name": "q", "a": {"b": {"c": 1}, "e": 3}}));
        assert!(columns.beyond(&["name"]));
        assert!(!columns.beyond(&["name", "a", "none"]) && Wanted::All.beyond(&["name"]));
        assert!(Wanted::of("name,a,b", "columns", 2).is_err() && Wanted::of("a,a,,a", "sort", 1).is_ok());
    }

    #[test]
    fn what_is_sorted_by_is_not_deep() {
        let checked =
            |path: String| Wanted::Only(vec!["name".into(), path]).check_depth("sort", SORT_PARTS_MAX);
        assert!(checked("a.b.c.d.e.f.g.h".into()).is_ok());
        assert!(checked("a.b.c.d.e.f.g.h.i".into()).is_err() && checked(".".repeat(6000)).is_err());
    }

    #[test]
    fn a_page_is_the_part_that_it_would_be_of_all_in_order() {
        for (begin, end) in [(0, 0), (0, 10), (995, 1000), (500, 600), (0, 1000), (1000, 1000)] {
            let mut numbers: Vec<usize> = (0..1000).map(|at| at * 7919 % 1000).collect();
            place(&mut numbers, begin, end, usize::cmp);
            assert!(numbers[begin..end].iter().copied().eq(begin..end), "{begin} {end}");
        }
    }

    #[test]
    fn items_are_written_whole_however_many_are_rendered_together() {
        let render = |items: &[usize], _: &Wanted| {
            let item =
                |it: &usize| json!({"n": it, "text": "x".repeat(if *it % 1000 > 500 { 100_000 } else { 1 })});
            items.iter().map(item).collect()
        };
        let listing = Listing::new((0..2000).collect(), |_: &usize| Cow::Borrowed(""), render);
        let mut text = Vec::new();
        write_items(&listing, &listing.items, &Wanted::Only(vec!["n".into()]), &mut text).unwrap();
        let numbers: Vec<Value> = serde_json::from_slice(&text).unwrap();
        assert!(numbers.iter().enumerate().all(|(at, it)| *it == json!({"n": at})) && numbers.len() == 2000);
        assert_eq!(
            (next_together(32, 32 << 10), next_together(400, 4), next_together(512, 0)),
            (64, 512, 512)
        );
        assert_eq!(
            (next_together(32, 4 << 20), next_together(1, 9 << 20), next_together(512, 2 << 20)),
            (8, 1, 256)
        );
    }

    #[test]
    fn values_to_sort_by_are_looked_at_where_they_can_be() {
        let render = |items: &[u64], _: &Wanted| items.iter().map(|it| json!({"a": it * 2})).collect();
        let peek = |it: &u64, path: &str| (path == "a" && *it < 2).then(|| json!(-1));
        let listing =
            Listing::new(vec![0, 1, 2], |_: &u64| Cow::Borrowed(""), render).of_many(u64::cmp, peek);
        let keys = |path: &str| {
            let wanted = Wanted::of(path, "sort", 1).unwrap();
            let Wanted::Only(paths) = &wanted else { panic!() };
            sort_keys(&listing, &listing.items, paths, &wanted)
        };
        assert_eq!(keys("a").concat(), [json!(-1), json!(-1), json!(4)].map(|it| Key::of(&it)));
        assert_eq!(keys("b").concat(), [(); 3].map(|()| Key::of(&Value::Null)));
    }
}

//! Aggregates the figures of several runs, for example into medians, field by field.
//!
//! The figures are handled as JSON trees, so that a new field needs no changes here.

use serde_json::{Map, Value};

use crate::numbers::median;

/// Aggregates JSON values with the same fields into one value, field by field, and arrays element
/// by element, up to the end of the shortest. For a field with numbers, `with` computes the result
/// from the field's numbers in all values. Missing and `null` numbers are ignored; if no value has
/// a number, the result is `null`. A text is kept if it is equal in all values, and otherwise
/// becomes `null`.
pub(crate) fn aggregate(values: &[Value], with: &dyn Fn(&[f64]) -> Option<f64>) -> Value {
    let objects: Vec<&Map<String, Value>> = values.iter().filter_map(Value::as_object).collect();
    let arrays: Vec<&Vec<Value>> = values.iter().filter_map(Value::as_array).collect();
    if let Some(length) = arrays.iter().map(|array| array.len()).min() {
        let elements =
            |index| arrays.iter().filter_map(|array| array.get(index).cloned()).collect::<Vec<_>>();
        return (0..length).map(|index| aggregate(&elements(index), with)).collect();
    }
    if objects.is_empty() {
        if let Some(text) = values.iter().find(|value| value.is_string()) {
            let is_same = values.iter().all(|value| value == text);
            return if is_same { text.clone() } else { Value::Null };
        }
        let numbers: Vec<f64> = values.iter().filter_map(Value::as_f64).collect();
        let aggregated = if numbers.is_empty() { None } else { with(&numbers) };
        return aggregated.map_or(Value::Null, Value::from);
    }
    let mut aggregated = Map::new();
    for name in objects.iter().flat_map(|object| object.keys()) {
        if !aggregated.contains_key(name) {
            let fields = objects.iter().filter_map(|object| object.get(name).cloned());
            aggregated.insert(name.clone(), aggregate(&fields.collect::<Vec<_>>(), with));
        }
    }
    Value::Object(aggregated)
}

/// Returns, for each numeric field, the number in `figures` divided by the number in `reference`;
/// `null` if either number is missing or the divisor is zero.
pub(crate) fn ratios(figures: &Value, reference: &Value) -> Value {
    match (figures, reference) {
        (Value::Object(figures), Value::Object(reference)) => {
            let ratio = |(name, figure): (&String, &Value)| {
                let reference = reference.get(name).unwrap_or(&Value::Null);
                (name.clone(), ratios(figure, reference))
            };
            Value::Object(figures.iter().map(ratio).collect())
        }
        _ => match (figures.as_f64(), reference.as_f64()) {
            (Some(figure), Some(reference)) if reference != 0.0 => (figure / reference).into(),
            _ => Value::Null,
        },
    }
}

/// Returns the median.
pub(crate) fn middle(numbers: &[f64]) -> Option<f64> {
    Some(median(numbers.to_vec()))
}

/// Returns the mean.
pub(crate) fn mean(numbers: &[f64]) -> Option<f64> {
    Some(numbers.iter().sum::<f64>() / numbers.len() as f64)
}

/// Returns the smallest number.
pub(crate) fn minimum(numbers: &[f64]) -> Option<f64> {
    numbers.iter().copied().min_by(f64::total_cmp)
}

/// Returns the largest number.
pub(crate) fn maximum(numbers: &[f64]) -> Option<f64> {
    numbers.iter().copied().max_by(f64::total_cmp)
}

/// Returns the coefficient of variation of a sample: the standard deviation divided by the absolute
/// value of the mean. `None` for fewer than two numbers, or if the mean is 0.
pub fn variation(numbers: &[f64]) -> Option<f64> {
    let mean = mean(numbers)?;
    if numbers.len() < 2 || mean == 0.0 {
        return None;
    }
    let squares: f64 = numbers.iter().map(|number| (number - mean).powi(2)).sum();
    Some((squares / (numbers.len() - 1) as f64).sqrt() / mean.abs())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_at_the_same_path_are_aggregated() {
        let runs = [
            json!({"a": 1.0, "in": {"b": 5, "c": null}, "d": null, "e": [1, 5]}),
            json!({"a": 3.0, "in": {"b": 7, "c": 2.0}, "d": null, "e": [3]}),
            json!({"a": 8.0, "in": {"b": 6}, "d": null, "e": [8, 9]}),
        ];
        let median = aggregate(&runs, &middle);
        let expected = json!({"a": 3.0, "in": {"b": 6.0, "c": 2.0}, "d": null, "e": [3.0]});
        assert_eq!(median, expected);
        assert_eq!(aggregate(&runs, &mean)["a"], 4.0);
        assert_eq!((minimum(&[3.0, 1.0]), maximum(&[3.0, 1.0])), (Some(1.0), Some(3.0)));
    }

    #[test]
    fn variation_is_that_of_a_sample() {
        assert_eq!(variation(&[9.0, 11.0]), Some(2f64.sqrt() / 10.0));
        assert_eq!(variation(&[9.0]), None);
        assert_eq!(variation(&[0.0, 0.0]), None);
    }

    #[test]
    fn a_ratio_to_zero_or_a_missing_figure_is_null() {
        let ratios = ratios(&json!({"a": 3.0, "b": 1.0, "c": 1}), &json!({"a": 2.0, "b": 0.0}));
        assert_eq!(ratios, json!({"a": 1.5, "b": null, "c": null}));
    }
}

use super::*;

#[test]
fn the_textbook_values() {
    let values = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0];
    assert_eq!(mean(&values), Some(5.0));
    assert!((standard_deviation(&values).unwrap() - (32.0_f64 / 7.0).sqrt()).abs() < 1e-12);
    assert!((coefficient_of_variation(&values).unwrap() - 0.427_618).abs() < 1e-6);
    assert_eq!(median(&values), Some(4.5));
    assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
    assert_eq!(range(&values), Some((2.0, 9.0)));
    // numpy.quantile([1, 2, 3, 4], 0.9)
    assert!((quantile(&[4.0, 1.0, 3.0, 2.0], 0.9).unwrap() - 3.7).abs() < 1e-12);
    assert_eq!(quantile(&values, 1.0), Some(9.0));
    assert_eq!(quantile(&values, 0.0), Some(2.0));
}

#[test]
fn what_can_t_be_said_is_not_said() {
    assert_eq!(mean(&[]), None);
    assert_eq!(median(&[]), None);
    assert_eq!(range(&[]), None);
    assert_eq!(standard_deviation(&[1.0]), None);
    assert_eq!(coefficient_of_variation(&[1.0]), None);
    assert_eq!(coefficient_of_variation(&[0.0, 0.0]), None);
}

#[cfg(test)]
mod tests {
    #[test]
    fn passes() {
        assert_eq!(1 + 1, 2);
    }

    #[test]
    fn fails() {
        assert_eq!(1 + 1, 3, "wrong");
    }

    #[test]
    #[ignore]
    fn is_skipped() {}
}

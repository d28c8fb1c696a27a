package marketlog;

/** A completed refresh as its last record describes it, and where that record is in the input. */
record Refresh(
    String id, long observedAt, int count, String currency, Money.Rate rate, int partition, long offset, long timestamp) {}

package marketlog;

/** The rules of streams/book/judge.ts. The bench publishes refreshes that are applied alone: another ends the program. */
final class Judgement {
    private Judgement() {}

    static void requireApplied(Staging staging, Rows rows, Refresh refresh) {
        boolean isOpen = staging.openId != null;
        String refusal = refresh.observedAt() <= staging.lastObservedAt ? "not_newer"
            : refresh.rate() == null ? "unusable_rate"
            : !isOpen && refresh.count() != 0 ? "no_observations"
            : isOpen && (staging.hasGap || staging.nextIndex != refresh.count()) ? "count_mismatch"
            : isOpen && staging.items > 0 && !staging.openCurrency.equals(refresh.currency()) ? "currency_mismatch"
            : suspicionOf(staging, rows, refresh);
        if (refusal != null) throw new IllegalStateException(staging.provider + ": " + refusal);
    }

    private static String suspicionOf(Staging staging, Rows rows, Refresh refresh) {
        boolean isSameCurrency = staging.currency.equals(refresh.currency());
        int shared = 0;
        int moved = 0;
        for (int itemId = 0; itemId < rows.end(); itemId++) {
            if (rows.price[itemId] <= 0 || !staging.isStaged(itemId)) continue;
            shared += 1;
            double before = isSameCurrency ? rows.price[itemId] : rows.microUsd[itemId];
            double staged = staging.price[itemId];
            double now = isSameCurrency ? staged : staged * 10_000 / refresh.rate().approximate();
            if (Math.abs(now - before) > 0.8 * before) moved += 1;
        }
        if ((rows.listed - shared) * 2 > rows.listed) return "collapsed";
        return moved * 2 > shared ? "glitch" : null;
    }
}

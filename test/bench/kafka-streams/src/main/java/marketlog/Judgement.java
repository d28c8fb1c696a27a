package marketlog;

/** The verdict on a refresh, by the rules of streams/book/judge.ts. */
record Judgement(
    String verdict, String reason, int before, int now, int moved, int shared, int suspectCount, long suspectSince) {
    private static final int BELIEVED_COUNT = 3;
    private static final long BELIEVED_AFTER_MS = 30 * 60_000;

    boolean isApplied() {
        return verdict.equals("applied");
    }

    static Judgement of(Staging staging, Rows rows, Refresh refresh) {
        boolean isOpen = staging.openId != null;
        if (refresh.observedAt() <= staging.lastObservedAt) return refused("stale", "not_newer");
        if (refresh.rate() == null) return refused("failed", "unusable_rate");
        if (!isOpen && refresh.count() != 0) return refused("incomplete", "no_observations");
        if (isOpen && (staging.hasGap || staging.nextIndex != refresh.count())) {
            return refused("incomplete", "count_mismatch");
        }
        if (isOpen && staging.items > 0 && !staging.openCurrency.equals(refresh.currency())) {
            return refused("failed", "currency_mismatch");
        }
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
        int listed = rows.listed;
        String suspicion = (listed - shared) * 2 > listed ? "collapsed" : moved * 2 > shared ? "glitch" : null;
        boolean isFirst = staging.suspect == null;
        int count = isFirst ? 1 : staging.suspectCount + 1;
        long since = isFirst ? refresh.observedAt() : staging.suspectSince;
        boolean isBelieved = count >= BELIEVED_COUNT && refresh.observedAt() - since >= BELIEVED_AFTER_MS;
        String verdict = suspicion == null || isBelieved ? "applied" : "quarantined";
        int now = isOpen ? staging.items : 0;
        return new Judgement(verdict, suspicion, listed, now, moved, shared, count, since);
    }

    private static Judgement refused(String verdict, String reason) {
        return new Judgement(verdict, reason, 0, 0, 0, 0, 0, 0);
    }
}

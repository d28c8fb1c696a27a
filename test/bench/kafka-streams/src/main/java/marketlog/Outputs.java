package marketlog;

import java.nio.charset.StandardCharsets;
import marketlog.Events.Event;
import org.apache.avro.generic.GenericData;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;

/** Forwards what a judged refresh leads to, and writes the store: the records of streams/book/processor.ts. */
final class Outputs {
    private final Events events;
    private final String catalogVersion;
    private final Event changed;
    private final Event marked;
    private final Event judged;
    private final Event stored;
    private final Event judgedLast;
    private final Object askOfChange;
    private final Object added;
    private final Object updated;
    private final Object removed;
    private ProcessorContext<byte[], byte[]> context;
    private KeyValueStore<byte[], byte[]> store;
    private int addedCount;
    private int updatedCount;
    private int removedCount;

    Outputs(Events events, String catalogVersion) {
        this.events = events;
        this.catalogVersion = catalogVersion;
        changed = events.named("BookChanged");
        marked = events.named("RefreshMarked");
        judged = events.named("RefreshJudged");
        stored = events.named("BookRowStored");
        judgedLast = events.named("BookRefreshStored");
        askOfChange = changed.symbol("side", "ask");
        added = changed.symbol("change", "added");
        updated = changed.symbol("change", "updated");
        removed = changed.symbol("change", "removed");
    }

    void open(ProcessorContext<byte[], byte[]> its, KeyValueStore<byte[], byte[]> itsStore) {
        context = its;
        store = itsStore;
    }

    void apply(Staging staging, Rows rows, Refresh refresh) {
        boolean hasOtherCurrency = !staging.currency.equals(refresh.currency());
        int index = 0;
        addedCount = updatedCount = removedCount = 0;
        int end = Math.max(rows.end(), staging.capacity());
        rows.reserve(end - 1);
        for (int itemId = 0; itemId < end; itemId++) {
            long before = rows.price[itemId];
            if (!staging.isStaged(itemId)) {
                if (before > 0) change(staging, rows, refresh, itemId, 0, 0, index++);
                continue;
            }
            long price = staging.price[itemId];
            int quantity = staging.quantity[itemId];
            if (before == price && rows.quantity[itemId] == quantity && !hasOtherCurrency) continue;
            change(staging, rows, refresh, itemId, price, quantity, index++);
        }
        staging.currency = refresh.currency();
        staging.lastObservedAt = refresh.observedAt();
        mark(staging, refresh);
        verdict(staging, rows, refresh);
        keepJudged(staging, refresh);
    }

    private void change(
        Staging staging, Rows rows, Refresh refresh, int itemId, long price, int quantity, int index) {
        boolean wasListed = rows.price[itemId] > 0;
        boolean isListed = price > 0;
        Long micro = isListed ? Money.toMicroUsd(price, refresh.rate()) : null;
        if (!isListed) removedCount += 1;
        else if (wasListed) updatedCount += 1;
        else addedCount += 1;
        GenericData.Record out = new GenericData.Record(changed.schema);
        out.put("side", askOfChange);
        out.put("provider", staging.provider);
        out.put("item_id", itemId);
        out.put("change", isListed ? (wasListed ? updated : added) : removed);
        out.put("price", isListed ? (Long) price : null);
        out.put("currency", refresh.currency());
        out.put("price_micro_usd", micro);
        out.put("usd_rate", refresh.rate().text());
        out.put("quantity", quantity);
        out.put("previous_micro_usd", wasListed ? (Long) rows.microUsd[itemId] : null);
        out.put("previous_quantity", wasListed ? rows.quantity[itemId] : 0);
        out.put("seen_at", refresh.observedAt());
        out.put("refresh_id", refresh.id());
        out.put("url", null);
        out.put("source_partition", refresh.partition());
        out.put("source_offset", refresh.offset());
        out.put("source_index", index);
        byte[] key = bytes(Integer.toString(itemId));
        send(StreamsBook.CHANGES, key, events.encode(changed, out), refresh);
        keepRow(staging, refresh, itemId, price, micro, quantity);
        rows.set(itemId, price, isListed ? micro : 0, quantity);
    }

    private void keepRow(Staging staging, Refresh refresh, int itemId, long price, Long micro, int quantity) {
        byte[] key = bytes("row|" + staging.provider + "|" + itemId);
        if (price == 0) {
            store.delete(key);
            return;
        }
        GenericData.Record row = new GenericData.Record(stored.schema);
        row.put("price", price);
        row.put("currency", refresh.currency());
        row.put("price_micro_usd", micro);
        row.put("quantity", quantity);
        row.put("seen_at", refresh.observedAt());
        row.put("url", null);
        store.put(key, events.encode(stored, row));
    }

    /** The sink's partitioner sends it to every partition. */
    private void mark(Staging staging, Refresh refresh) {
        GenericData.Record mark = new GenericData.Record(marked.schema);
        mark.put("side", marked.symbol("side", "ask"));
        mark.put("provider", staging.provider);
        mark.put("refresh_id", refresh.id());
        mark.put("last_updated", refresh.observedAt());
        mark.put("source_partition", refresh.partition());
        mark.put("source_offset", refresh.offset());
        mark.put("catalog_version", catalogVersion);
        send(StreamsBook.CHANGES, bytes(StreamsBook.MARK + staging.provider), events.encode(marked, mark), refresh);
    }

    private void verdict(Staging staging, Rows rows, Refresh refresh) {
        long offers = 0;
        double value = 0;
        double cents = 0;
        for (int itemId = 0; itemId < rows.end(); itemId++) {
            if (rows.price[itemId] <= 0) continue;
            int quantity = rows.quantity[itemId];
            offers += quantity;
            value += (double) rows.price[itemId] * quantity;
            cents += rows.microUsd[itemId] / 10_000.0 * quantity;
        }
        GenericData.Record out = new GenericData.Record(judged.schema);
        out.put("side", judged.symbol("side", "ask"));
        out.put("provider", staging.provider);
        out.put("refresh_id", refresh.id());
        out.put("observed_at", refresh.observedAt());
        out.put("verdict", judged.symbol("verdict", "applied"));
        out.put("added", addedCount);
        out.put("updated", updatedCount);
        out.put("removed", removedCount);
        out.put("unresolved", staging.openId == null ? 0 : staging.unresolved);
        out.put("rejected", staging.openId == null ? 0 : staging.rejected);
        out.put("unique_items", rows.listed);
        out.put("total_offers", offers);
        out.put("total_value", Math.round(value));
        out.put("currency", staging.currency);
        out.put("total_value_usd", Math.round(cents));
        boolean areNamesResolved = staging.openId != null || refresh.count() == 0;
        out.put("catalog_version", areNamesResolved ? catalogVersion : null);
        send(StreamsBook.REFRESHES, bytes(staging.provider), events.encode(judged, out), refresh);
    }

    private void keepJudged(Staging staging, Refresh refresh) {
        GenericData.Record about = new GenericData.Record(judgedLast.schema);
        about.put("refresh_id", refresh.id());
        about.put("observed_at", refresh.observedAt());
        about.put("currency", refresh.currency());
        about.put("applied_at", refresh.observedAt());
        store.put(bytes("refresh|" + staging.provider), events.encode(judgedLast, about));
    }

    private void send(String sink, byte[] key, byte[] value, Refresh refresh) {
        context.forward(new Record<>(key, value, refresh.timestamp()), sink);
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }
}

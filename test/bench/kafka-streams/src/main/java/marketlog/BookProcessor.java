package marketlog;

import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import marketlog.Events.Event;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericRecord;
import org.apache.avro.util.Utf8;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.processor.api.RecordMetadata;
import org.apache.kafka.streams.state.KeyValueStore;

/**
 * The rules of streams/book for asks that come in refreshes: stages observations, judges a refresh at its completion,
 * and forwards its changes, marker and verdict. What is listed, and what was judged last, is in the store,
 * under the keys and in the form of market.book.
 */
final class BookProcessor implements Processor<byte[], byte[], byte[], byte[]> {
    private static final long LARGEST_PRICE = 10_000_000_000_000L;

    private final Events events;
    private final Catalog catalog;
    private final Money money = new Money();
    private final Map<Utf8, Staging> providers = new HashMap<>();
    private final Rows rows = new Rows();
    private final Outputs outputs;
    private final Event ask;
    private final Event completed;
    private final Event stored;
    private final Event judgedLast;
    private final int[] askFields;
    private ProcessorContext<byte[], byte[]> context;
    private KeyValueStore<byte[], byte[]> store;

    BookProcessor(Events events, Catalog catalog) {
        this.events = events;
        this.catalog = catalog;
        ask = events.named("AskObserved");
        completed = events.named("RefreshCompleted");
        stored = events.named("BookRowStored");
        judgedLast = events.named("BookRefreshStored");
        outputs = new Outputs(events, catalog.version);
        String[] names = {
            "provider", "refresh_id", "index", "market_hash_name", "phase", "price", "currency", "quantity", "url"
        };
        askFields = new int[names.length];
        for (int each = 0; each < names.length; each++) askFields[each] = ask.field(names[each]);
    }

    @Override
    public void init(ProcessorContext<byte[], byte[]> its) {
        context = its;
        store = its.getStateStore(StreamsBook.STORE);
        outputs.open(its, store);
    }

    @Override
    public void process(Record<byte[], byte[]> record) {
        byte[] value = record.value();
        Event event = events.eventOf(value);
        RecordMetadata from = context.recordMetadata().orElseThrow();
        GenericRecord decoded = events.decode(event, value);
        if (event == ask) observe(decoded);
        else if (event == completed) complete(decoded, from, record.timestamp());
        else throw new IllegalStateException(event.name + " is not part of this program");
    }

    private Staging providerOf(Utf8 key) {
        Staging known = providers.get(key);
        if (known != null) return known;
        Staging created = new Staging(key.toString());
        byte[] last = store.get(("refresh|" + created.provider).getBytes(StandardCharsets.UTF_8));
        if (last != null) {
            GenericRecord about = events.decode(judgedLast, last);
            created.lastObservedAt = (Long) about.get("observed_at");
            created.currency = about.get("currency").toString();
        }
        // The key's bytes belong to the record that is decoded next.
        providers.put(new Utf8(created.provider), created);
        return created;
    }

    private void observe(GenericRecord seen) {
        int[] at = askFields;
        if (seen.get(at[1]) == null) throw new IllegalStateException("pushed observations are not part of this program");
        if (seen.get(at[8]) != null) throw new IllegalStateException("URLs are not part of this program");
        Staging staging = providerOf((Utf8) seen.get(at[0]));
        int index = (Integer) seen.get(at[2]);
        if (index == 0) staging.open(seen.get(at[1]).toString(), seen.get(at[6]).toString());
        else if (staging.openId == null || !((Utf8) seen.get(at[1])).toString().equals(staging.openId)) return;
        else {
            if (index != staging.nextIndex) staging.hasGap = true;
            staging.nextIndex += 1;
        }
        Long price = (Long) seen.get(at[5]);
        int quantity = (Integer) seen.get(at[7]);
        boolean isUsable = price != null && price > 0 && price <= LARGEST_PRICE && quantity > 0
            && seen.get(at[6]).toString().equals(staging.openCurrency);
        if (!isUsable) {
            staging.rejected += 1;
            return;
        }
        int itemId = catalog.idOf((Utf8) seen.get(at[3]), (Utf8) seen.get(at[4]));
        if (itemId == Catalog.UNKNOWN) staging.unresolved += 1;
        else staging.stage(itemId, price, quantity);
    }

    private void complete(GenericRecord completed, RecordMetadata from, long timestamp) {
        Refresh refresh = new Refresh(
            completed.get("refresh_id").toString(), (Long) completed.get("observed_at"), (Integer) completed.get("count"),
            completed.get("currency").toString(), money.rate(completed.get("usd_rate").toString()), from.partition(),
            from.offset(), timestamp);
        Staging staging = providerOf((Utf8) completed.get("provider"));
        if (staging.openId != null && (!staging.openId.equals(refresh.id()) || refresh.count() == 0)) staging.drop();
        readRows(staging.provider);
        Judgement.requireApplied(staging, rows, refresh);
        outputs.apply(staging, rows, refresh);
        staging.drop();
        rows.clear();
    }

    private void readRows(String provider) {
        int price = stored.field("price");
        int micro = stored.field("price_micro_usd");
        int quantity = stored.field("quantity");
        byte[] prefix = ("row|" + provider + "|").getBytes(StandardCharsets.UTF_8);
        try (var found = store.prefixScan(prefix, new ByteArraySerializer())) {
            while (found.hasNext()) {
                var entry = found.next();
                int itemId = numberAt(entry.key, prefix.length);
                GenericData.Record row = (GenericData.Record) events.decode(stored, entry.value);
                rows.set(itemId, (Long) row.get(price), (Long) row.get(micro), (Integer) row.get(quantity));
            }
        }
    }

    private static int numberAt(byte[] digits, int from) {
        int number = 0;
        for (int at = from; at < digits.length; at++) number = number * 10 + (digits[at] - '0');
        return number;
    }
}

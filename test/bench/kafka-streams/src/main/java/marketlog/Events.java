package marketlog;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.util.HashMap;
import java.util.Map;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericDatumWriter;
import org.apache.avro.generic.GenericRecord;
import org.apache.avro.io.BinaryDecoder;
import org.apache.avro.io.BinaryEncoder;
import org.apache.avro.io.DecoderFactory;
import org.apache.avro.io.EncoderFactory;
import java.io.ByteArrayOutputStream;

/**
 * Events to bytes and back in Confluent framing. Decodes into one record of each event, which the next of the same
 * event overwrites. Not safe for threads: each task has its own.
 */
final class Events {
    private static final int HEADER_BYTES = 5;

    /** One event: its schema, its id, and the record that decoding fills. */
    static final class Event {
        final String name;
        final Schema schema;
        private final int id;
        private final GenericDatumReader<GenericRecord> reader;
        private final GenericDatumWriter<GenericRecord> writer;
        private GenericRecord reused;

        private Event(String name, int id, Schema schema) {
            this.name = name;
            this.id = id;
            this.schema = schema;
            reader = new GenericDatumReader<>(schema);
            writer = new GenericDatumWriter<>(schema);
        }

        int field(String field) {
            return schema.getField(field).pos();
        }

        /** The symbol of a field that is an enumeration. */
        GenericData.EnumSymbol symbol(String field, String symbol) {
            return new GenericData.EnumSymbol(schema.getField(field).schema(), symbol);
        }
    }

    private final Map<Integer, Event> byId = new HashMap<>();
    private final Map<String, Event> byName = new HashMap<>();
    private final ByteArrayOutputStream bytes = new ByteArrayOutputStream(512);
    private BinaryDecoder decoder;
    private BinaryEncoder encoder;

    /** Events by name, each with its registry id and its schema. */
    Events(JsonNode schemas) {
        schemas.properties().forEach(entry -> {
            JsonNode about = entry.getValue();
            Schema schema = new Schema.Parser().parse(about.get("avro").toString());
            Event event = new Event(entry.getKey(), about.get("id").intValue(), schema);
            byId.put(event.id, event);
            byName.put(event.name, event);
        });
    }

    Event named(String name) {
        return byName.get(name);
    }

    Event eventOf(byte[] value) {
        int id = ByteBuffer.wrap(value).getInt(1);
        Event event = byId.get(id);
        if (event == null) throw new IllegalStateException("no schema was given for the id " + id);
        return event;
    }

    GenericRecord decode(Event event, byte[] value) {
        decoder = DecoderFactory.get().binaryDecoder(value, HEADER_BYTES, value.length - HEADER_BYTES, decoder);
        try {
            event.reused = event.reader.read(event.reused, decoder);
            return event.reused;
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    byte[] encode(Event event, GenericRecord value) {
        bytes.reset();
        bytes.write(0);
        for (int shift = 24; shift >= 0; shift -= 8) bytes.write(event.id >>> shift);
        encoder = EncoderFactory.get().directBinaryEncoder(bytes, encoder);
        try {
            event.writer.write(value, encoder);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
        return bytes.toByteArray();
    }
}

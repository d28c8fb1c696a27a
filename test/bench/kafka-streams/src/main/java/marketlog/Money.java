package marketlog;

import java.math.BigInteger;
import java.util.HashMap;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Hundredths of a currency to micro-dollars, half up: the arithmetic of schemas/values/money.ts. */
final class Money {
    /** Units of a currency per US dollar; its exact value is numerator / denominator. */
    record Rate(String text, double approximate, BigInteger numerator, BigInteger denominator) {}

    private static final Pattern FORM = Pattern.compile("^(\\d{1,30})(?:\\.(\\d{1,40}))?(?:[eE]([+-]?\\d{1,3}))?$");
    private static final BigInteger MICRO_IN_MINOR = BigInteger.valueOf(10_000);
    private static final double EXACT_BELOW = 1L << 40;
    private static final long LARGEST = (1L << 53) - 1;

    private final Map<String, Rate> rates = new HashMap<>();

    /** The rate of a decimal text; null when it is none. */
    Rate rate(String text) {
        return rates.computeIfAbsent(text, Money::parse);
    }

    private static Rate parse(String text) {
        Matcher match = FORM.matcher(text);
        if (!match.matches()) return null;
        String fraction = match.group(2) == null ? "" : match.group(2);
        int exponent = (match.group(3) == null ? 0 : Integer.parseInt(match.group(3))) - fraction.length();
        BigInteger digits = new BigInteger(match.group(1) + fraction);
        if (digits.signum() == 0 || Math.abs(exponent) > 60) return null;
        return new Rate(
            text,
            Double.parseDouble(text),
            exponent > 0 ? digits.multiply(BigInteger.TEN.pow(exponent)) : digits,
            exponent < 0 ? BigInteger.TEN.pow(-exponent) : BigInteger.ONE);
    }

    /** Floating point proposes; exact arithmetic decides near a tie and above 2^40. */
    static long toMicroUsd(long minor, Rate rate) {
        double proposal = minor * 10_000.0 / rate.approximate();
        double distance = Math.abs(proposal - Math.floor(proposal) - 0.5);
        if (proposal < EXACT_BELOW && distance > 0.001) return Math.round(proposal);
        BigInteger numerator = BigInteger.valueOf(minor).multiply(MICRO_IN_MINOR).multiply(rate.denominator());
        BigInteger exact = numerator.shiftLeft(1).add(rate.numerator()).divide(rate.numerator().shiftLeft(1));
        long value = exact.longValueExact();
        if (value > LARGEST) throw new ArithmeticException("amount is beyond 2^53 units");
        return value;
    }
}

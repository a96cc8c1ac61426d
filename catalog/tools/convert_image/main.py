import base64
import io
import json
import sys

from PIL import Image, ImageOps

FILE = "/hearth/input/image_url"
MAX_PIXELS = 50_000_000
MAX_BYTES = 10 << 20
CONTENT_TYPES = {"png": "image/png", "jpeg": "image/jpeg", "webp": "image/webp", "gif": "image/gif"}
# We keep all frames of an ANIMATED file if the output format can be animated. MOVING maps each such format to
# the loop count that plays it once.
ANIMATED = ("GIF", "WEBP", "PNG")
MOVING = {"gif": None, "webp": 1}
Image.MAX_IMAGE_PIXELS = MAX_PIXELS
UNREADABLE = (EOFError, OSError, SyntaxError, ValueError, Image.DecompressionBombError, Image.DecompressionBombWarning)


class Refused(Exception):
    """The image cannot be converted; the message starts with the name of the input field."""


def load(given):
    """Returns the frames of the result, how they are played, and how many frames the file has."""
    try:
        image = Image.open(FILE)
        if image.width * image.height > MAX_PIXELS:
            raise Refused(f"image_url: the image has more than {MAX_PIXELS // 1_000_000} megapixels")
        count = getattr(image, "n_frames", 1)
        kind = given["format"]
        if count == 1 or image.format not in ANIMATED or kind not in MOVING:
            return [frame_of(image, given)], {}, count
        frames, durations = [], []
        for number in range(count):
            image.seek(number)
            frames.append(frame_of(image, given, count))
            durations.append(image.info.get("duration", 0))
            # Animation writers would treat anything left here, such as comments, as their own settings.
            frames[-1].info.clear()
        # The pixels behind a transparent frame must not remain visible behind the next one.
        disposal = 2 if any(frame.mode == "RGBA" for frame in frames) else 0
        loop = image.info.get("loop", MOVING[kind])
        return frames, {"duration": durations, "loop": loop, "disposal": disposal}, count
    except UNREADABLE as error:
        raise Refused(f"image_url: cannot read the image: {error}") from error


def frame_of(image, given, count=1):
    """Returns the image's current frame in the requested size."""
    # Cameras store the orientation as metadata.
    frame = ImageOps.exif_transpose(image)
    size = size_of(frame, given.get("width"), given.get("height"))
    if size[0] * size[1] * count > MAX_PIXELS:
        frames = f" in its {count:,} frames" if count > 1 else ""
        raise Refused(f"width: the result would have more than {MAX_PIXELS // 1_000_000} megapixels{frames}")
    if frame.mode.startswith("I"):
        # The library clips 16-bit grays at 255 instead of scaling them.
        frame = frame.convert("I").point(lambda grey: grey * (1 / 256)).convert("L")
    frame = frame.convert("RGBA" if frame.has_transparency_data else "RGB")
    if size != frame.size:
        frame = frame.resize(size, Image.Resampling.LANCZOS)
    if frame.mode == "RGBA" and given["format"] == "gif":
        # A GIF has one transparent color, and the library treats all other translucent ones as opaque.
        seen = frame.getchannel("A").point(lambda alpha: 255 if alpha >= 128 else 0)
        clear = Image.new("RGBA", size)
        clear.paste(frame.convert("RGB"), mask=seen)
        frame = clear
    return frame


def size_of(image, width, height):
    """Returns the requested size; if only one dimension is given, the aspect ratio is preserved."""
    if width is None and height is None:
        return image.size
    if width is None:
        width = max(1, round(image.width * height / image.height))
    if height is None:
        height = max(1, round(image.height * width / image.width))
    return width, height


def convert(given):
    kind = given["format"]
    frames, playing, count = load(given)
    image, more = frames[0], frames[1:]
    if image.mode == "RGBA" and kind == "jpeg":
        white = Image.new("RGB", image.size, "white")
        white.paste(image, mask=image.getchannel("A"))
        image = white
    out = io.BytesIO()
    # The file's metadata, such as camera and location, is not passed on.
    image.save(out, kind.upper(), **({"save_all": True, "append_images": more, **playing} if more else {}))
    if out.tell() > MAX_BYTES:
        raise Refused(
            f"format: the result is larger than {MAX_BYTES >> 20} MB; choose a smaller size or another format"
        )
    return {
        "image_base64": base64.b64encode(out.getvalue()).decode(),
        "content_type": CONTENT_TYPES[kind],
        "width": image.width,
        "height": image.height,
        "size_bytes": out.tell(),
        **({"note": f"only the first of the file's {count:,} frames was used"} if len(frames) < count else {}),
    }


def main():
    with open("/hearth/input/input.json", encoding="utf-8") as file:
        given = json.load(file)
    try:
        json.dump(convert(given), sys.stdout)
    except Refused as error:
        json.dump({"error": {"message": str(error)}}, sys.stdout)
        sys.exit(2)


main()

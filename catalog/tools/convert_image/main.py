import base64
import io
import json
import sys

from PIL import Image, ImageOps

FILE = "/hearth/input/image_url"
MOST_PIXELS = 50_000_000
MOST_BYTES = 10 << 20
CONTENT_TYPES = {"png": "image/png", "jpeg": "image/jpeg", "webp": "image/webp", "gif": "image/gif"}
Image.MAX_IMAGE_PIXELS = MOST_PIXELS


class Refused(Exception):
    """The image cannot be converted; the message names the field of the input first."""


def load():
    try:
        image = Image.open(FILE)
        if image.width * image.height > MOST_PIXELS:
            raise Refused(f"image_url: the image has more than {MOST_PIXELS // 1_000_000} megapixels")
        # Cameras store how the picture was held beside it.
        return ImageOps.exif_transpose(image)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise Refused(f"image_url: it is no image that can be read: {error}") from error


def size_of(image, width, height):
    """Returns the wanted size; one side alone keeps the proportions."""
    if width is None and height is None:
        return image.size
    if width is None:
        width = max(1, round(image.width * height / image.height))
    if height is None:
        height = max(1, round(image.height * width / image.width))
    if width * height > MOST_PIXELS:
        raise Refused(f"width: the result would have more than {MOST_PIXELS // 1_000_000} megapixels")
    return width, height


def convert(given):
    kind = given["format"]
    image = load()
    size = size_of(image, given.get("width"), given.get("height"))
    has_alpha = "A" in image.getbands() or "transparency" in image.info
    image = image.convert("RGBA" if has_alpha else "RGB")
    if size != image.size:
        image = image.resize(size, Image.Resampling.LANCZOS)
    if has_alpha and kind == "jpeg":
        white = Image.new("RGB", image.size, "white")
        white.paste(image, mask=image.getchannel("A"))
        image = white
    out = io.BytesIO()
    # Metadata of the file, such as camera and place, is not passed on.
    image.save(out, kind.upper())
    if out.tell() > MOST_BYTES:
        raise Refused(f"format: the result is larger than {MOST_BYTES >> 20} MB; choose a smaller size or another format")
    return {
        "image_base64": base64.b64encode(out.getvalue()).decode(),
        "content_type": CONTENT_TYPES[kind],
        "width": image.width,
        "height": image.height,
        "size_bytes": out.tell(),
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
